// The local endpoint: what is encoded, what the residual becomes, what a trainer can do to the
// memory.
#include "daemon/endpoint/endpoint.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "compression/block_math.h"
#include "tests/unit/endpoint/model.h"

namespace causeway::endpoint {
namespace {

using testing::Model;
using testing::Noise;
using testing::Record;

// Two tensors that end inside the second chunk, so chunks span them.
std::vector<local::TensorRecord> TwoTensors(local::DType dtype = local::DType::kFp32) {
  return {Record("a", {compression::kChunkElements - 100}, dtype), Record("b", {5000}, dtype)};
}

TEST_CASE("a contribution is the delivered value less the snapshot") {
  Model model(TwoTensors(), "fp32");
  model.Publish(0, 0, [](uint64_t i) { return Noise(1, i); });
  model.Write(0, [](uint64_t i) { return Noise(2, i); });
  REQUIRE(model.endpoint->Begin(0, 0, 7, 1).ok());
  const std::vector<float> sent = model.Decode(0, model.EncodeAll(0));
  model.layout->ForEachTensor(0, [&](uint32_t, uint64_t first, uint64_t elements) {
    for (uint64_t i = first; i < first + elements; ++i) {
      REQUIRE(sent[i] == Noise(1, i) - Noise(2, i));
    }
  });
  CHECK(sent.back() == 0.0f);  // padding
  model.endpoint->Commit(0);
  CHECK(!model.endpoint->HasResidual(0));  // fp32 without error feedback keeps none
}

TEST_CASE("work may have started from the value before the base") {
  Model model(TwoTensors(), "fp32");
  model.Write(0, [](uint64_t i) { return Noise(3, i); });
  model.Publish(0, 4, [](uint64_t i) { return Noise(1, i); });
  model.endpoint->SetOrigin(0, local::Origin::kOlder);
  CHECK(model.endpoint->Begin(0, 4, 7, 1).code() == absl::StatusCode::kFailedPrecondition);
  model.Publish(0, 5, [](uint64_t i) { return Noise(2, i); });
  REQUIRE(model.endpoint->Begin(0, 5, 7, 1).ok());
  CHECK(model.Decode(0, model.EncodeAll(0))[9] == Noise(1, 9) - Noise(3, 9));
  model.endpoint->Commit(0);
  model.endpoint->SetOrigin(0, local::Origin::kBase);
  REQUIRE(model.endpoint->Begin(0, 5, 7, 1).ok());
  CHECK(model.Decode(0, model.EncodeAll(0))[9] == Noise(2, 9) - Noise(3, 9));
  model.endpoint->Commit(0);
}

TEST_CASE("gradients are encoded as they are, whatever the values hold") {
  Model model(TwoTensors(), "fp32", /*outer=*/false);
  model.Write(0, [](uint64_t i) { return Noise(3, i); });
  REQUIRE(model.endpoint->Begin(0, 12345, 1, 1).ok());  // no base is needed
  const std::vector<float> sent = model.Decode(0, model.EncodeAll(0));
  CHECK(sent[0] == Noise(3, 0));
  CHECK(sent[100000] == Noise(3, 100000));
}

TEST_CASE("the base of 16-bit tensors is the delivered value as the trainer holds it") {
  for (local::DType dtype : {local::DType::kBf16, local::DType::kFp16}) {
    const bool outer = GENERATE(true, false);
    INFO(schema::DTypeName(dtype) << (outer ? " outer" : " gradients"));
    Model model(TwoTensors(dtype), "fp32", outer);
    model.Publish(0, 4, [](uint64_t i) { return Noise(1, i); });
    // A trainer that took the value and did nothing: its tensors are the casts.
    model.Write(0, [](uint64_t i) { return Noise(1, i); });
    CHECK(model.endpoint->SnapshotMatches(0, 4));
    REQUIRE(model.endpoint->Begin(0, 4, 1, 1).ok());
    const std::vector<float> sent = model.Decode(0, model.EncodeAll(0));
    for (uint64_t i = 0; i < 1000; ++i) {
      const float cast = dtype == local::DType::kBf16
                             ? compression::math::FromBf16(compression::math::ToBf16(Noise(1, i)))
                             : compression::math::FromFp16(compression::math::ToFp16(Noise(1, i)));
      REQUIRE(sent[i] == (outer ? 0.0f : cast));  // outer: it has learnt nothing
    }
  }
}

TEST_CASE("a base that is not here is refused, and slots alternate") {
  Model model(TwoTensors(), "fp32");
  CHECK(absl::IsFailedPrecondition(model.endpoint->Begin(0, 0, 1, 1)));
  model.Publish(0, 0, [](uint64_t) { return 0.0f; });
  model.Publish(0, 1, [](uint64_t) { return 1.0f; });
  CHECK(model.endpoint->Holds(0, 0));
  CHECK(model.endpoint->Value(0, 1)[0] == 1.0f);
  model.Publish(0, 2, [](uint64_t) { return 2.0f; });
  CHECK(!model.endpoint->Holds(0, 0));
  CHECK(model.endpoint->Value(0, 1)[0] == 1.0f);
  (void)model.endpoint->WritableValue(0, 3);  // from here on round 1 is void
  CHECK(!model.endpoint->Holds(0, 1));
  const absl::Status refused = model.endpoint->Begin(0, 1, 1, 1);
  CHECK(std::string(refused.message()).find("round 1") != std::string::npos);
  CHECK(!model.endpoint->Holds(0, -1));
}

TEST_CASE(
    "a dropped contribution leaves the residual as it was: encoding again gives the same bytes") {
  const std::string codec = GENERATE("int4:ef", "int8:ef", "int4:sr", "bf16");
  INFO(codec);
  Model model(TwoTensors(), codec);
  model.Publish(0, 0, [](uint64_t i) { return Noise(1, i); });
  model.Write(0, [](uint64_t i) { return Noise(2, i); });
  REQUIRE(model.endpoint->Begin(0, 0, 3, 99).ok());
  (void)model.EncodeAll(0);
  model.endpoint->Commit(0);  // a residual is there, if the codec keeps one
  REQUIRE(model.endpoint->Begin(0, 0, 3, 100).ok());
  const auto first = model.EncodeAll(0);
  model.endpoint->Drop(0);
  REQUIRE(model.endpoint->Begin(0, 0, 3, 100).ok());
  CHECK(model.EncodeAll(0) == first);
  model.endpoint->Commit(0);
  REQUIRE(model.endpoint->Begin(0, 0, 3, 100).ok());
  const bool feedback = model.endpoint->options().codec.error_feedback;
  CHECK((model.EncodeAll(0) == first) == !feedback);  // the committed residual moves what is sent
}

TEST_CASE("a partly encoded contribution can be dropped") {
  Model model(TwoTensors(), "int4:ef");
  model.Publish(0, 0, [](uint64_t i) { return Noise(1, i); });
  model.Write(0, [](uint64_t i) { return Noise(2, i); });
  REQUIRE(model.endpoint->Begin(0, 0, 1, 5).ok());
  std::vector<uint8_t> out(model.endpoint->EncodedSizeMax(0, 1));
  (void)model.endpoint->EncodeChunk(0, 1, absl::MakeSpan(out));
  model.endpoint->Drop(0);
  CHECK(!model.endpoint->open(0));
  CHECK(!model.endpoint->HasResidual(0));
  REQUIRE(model.endpoint->Begin(0, 0, 1, 5).ok());
  (void)model.EncodeAll(0);
  model.endpoint->Commit(0);
  CHECK(model.endpoint->HasResidual(0));
}

TEST_CASE("the residual is what encoding lost, added to the next value") {
  const compression::DType kept = GENERATE(compression::DType::kBf16, compression::DType::kFp32);
  Model model(TwoTensors(), "int8:ef", true, 1, {}, kept);
  const uint32_t n = compression::kChunkElements;
  model.Publish(0, 0, [](uint64_t) { return 0.0f; });
  model.Write(0, [](uint64_t i) { return -Noise(5, i); });  // delta = Noise(5)
  REQUIRE(model.endpoint->Begin(0, 0, 1, 1).ok());
  const std::vector<float> first = model.Decode(0, model.EncodeAll(0));
  model.endpoint->Commit(0);
  const absl::Span<const std::byte> residual = model.endpoint->CommittedResidual(0);
  REQUIRE(residual.size() == first.size() * compression::DTypeBytes(kept));
  std::vector<float> lost(first.size());
  compression::CastToFp32(residual.data(), lost.size(), kept, lost.data());
  for (uint32_t i = 0; i < n - 100; ++i) {
    const float exact = Noise(5, i) - first[i];
    REQUIRE(std::abs(lost[i] - exact) <=
            (kept == compression::DType::kFp32 ? 0.0f : std::abs(exact) / 256));
  }
  model.Write(0, [](uint64_t) { return 0.0f; });  // delta = 0: only the residual is sent
  REQUIRE(model.endpoint->Begin(0, 0, 1, 2).ok());
  const std::vector<float> second = model.Decode(0, model.EncodeAll(0));
  double before = 0, after = 0;
  for (uint32_t i = 0; i < n - 100; ++i) {
    before += std::abs(static_cast<double>(Noise(5, i)) - first[i]);
    after += std::abs(static_cast<double>(Noise(5, i)) - first[i] - second[i]);
  }
  CHECK(before > 0);
  CHECK(after < before / 20);
}

TEST_CASE("a residual keeps weight times error when the weight changes") {
  const compression::DType kept = GENERATE(compression::DType::kBf16, compression::DType::kFp32);
  const auto second_round = [kept](uint64_t first_weight, uint64_t second_weight) {
    Model model({Record("a", {4096})}, "int8:ef", true, 1, {}, kept);
    model.Publish(0, 0, [](uint64_t) { return 0.0f; });
    model.Write(0, [](uint64_t i) { return -Noise(5, i); });
    REQUIRE(model.endpoint->Begin(0, 0, first_weight, 1).ok());
    (void)model.EncodeAll(0);
    model.endpoint->Commit(0);
    model.Write(0, [](uint64_t) { return 0.0f; });
    REQUIRE(model.endpoint->Begin(0, 0, second_weight, 1).ok());
    return model.Decode(0, model.EncodeAll(0));
  };
  const std::vector<float> same = second_round(8, 8);
  const std::vector<float> quarter = second_round(8, 32);
  const std::vector<float> twice = second_round(8, 4);
  double largest = 0;
  for (size_t i = 0; i < same.size(); ++i) {
    // Powers of two: exact in bf16, in the scale and in the codes.
    CHECK(quarter[i] == same[i] / 4);
    CHECK(twice[i] == same[i] * 2);
    largest = std::max(largest, std::abs(static_cast<double>(same[i])));
  }
  CHECK(largest > 0);
}

TEST_CASE("a contribution of weight 0 leaves the residual alone") {
  Model model({Record("a", {4096})}, "int8:ef");
  model.Publish(0, 0, [](uint64_t) { return 0.0f; });
  model.Write(0, [](uint64_t i) { return -Noise(5, i); });
  REQUIRE(model.endpoint->Begin(0, 0, 5, 1).ok());
  (void)model.EncodeAll(0);
  model.endpoint->Commit(0);
  model.Write(0, [](uint64_t) { return 0.0f; });
  REQUIRE(model.endpoint->Begin(0, 0, 5, 1).ok());
  const auto expected = model.EncodeAll(0);
  model.endpoint->Drop(0);
  REQUIRE(model.endpoint->Begin(0, 0, 0, 1).ok());
  (void)model.EncodeAll(0);
  model.endpoint->Commit(0);
  REQUIRE(model.endpoint->Begin(0, 0, 5, 1).ok());
  CHECK(model.EncodeAll(0) == expected);
}

TEST_CASE("a residual that was kept elsewhere goes on here") {
  const compression::DType kept = GENERATE(compression::DType::kBf16, compression::DType::kFp32);
  const std::vector<local::TensorRecord> records = {Record("a", {300'000}), Record("b", {5000})};
  const auto begin = [](Model& model, float factor) {
    model.Publish(0, 0, [](uint64_t) { return 0.0f; });
    model.Write(0, [factor](uint64_t i) { return -factor * Noise(5, i); });
    REQUIRE(model.endpoint->Begin(0, 0, 3, 1).ok());
    return model.EncodeAll(0);
  };
  Model before(records, "int4:ef", true, 1, {}, kept);
  (void)begin(before, 1);
  before.endpoint->Commit(0);
  Model after(records, "int4:ef", true, 1, {}, kept);
  const absl::Span<const std::byte> from = before.endpoint->CommittedResidual(0);
  const absl::Span<std::byte> to =
      after.endpoint->RestoreResidual(0, before.endpoint->ResidualWeights(0));
  REQUIRE(to.size() == from.size());
  std::copy(from.begin(), from.end(), to.begin());
  CHECK(begin(after, 2) == begin(before, 2));
}

TEST_CASE("another's residual is added in bf16, whatever ours is kept in") {
  const compression::DType kept = GENERATE(compression::DType::kBf16, compression::DType::kFp32);
  Model model({Record("a", {4096})}, "int8:ef", true, 1, {}, kept);
  model.Publish(0, 0, [](uint64_t) { return 0.0f; });
  model.Write(0, [](uint64_t) { return 0.0f; });
  REQUIRE(model.endpoint->Begin(0, 0, 1, 1).ok());
  std::vector<float> extra(4096);
  for (size_t i = 0; i < extra.size(); ++i) extra[i] = static_cast<float>(i % 100) / 128;
  std::vector<uint16_t> cast(extra.size());
  compression::CastFromFp32(extra.data(), extra.size(), compression::DType::kBf16, cast.data());
  model.endpoint->AddToResidual(0, 0, cast, 0.5);
  const std::vector<float> sent = model.Decode(0, model.EncodeAll(0));
  for (size_t i = 0; i < extra.size(); ++i) {
    CHECK(sent[i] == Approx(extra[i] / 2).margin(0.004));
  }
}

TEST_CASE("a reset residual is zero") {
  Model model({Record("a", {4096})}, "int4:ef");
  model.Publish(0, 0, [](uint64_t) { return 0.0f; });
  model.Write(0, [](uint64_t i) { return -Noise(5, i); });
  REQUIRE(model.endpoint->Begin(0, 0, 1, 1).ok());
  const auto fresh = model.EncodeAll(0);
  model.endpoint->Commit(0);
  model.endpoint->ResetResidual(0);
  CHECK(!model.endpoint->HasResidual(0));
  REQUIRE(model.endpoint->Begin(0, 0, 1, 1).ok());
  CHECK(model.EncodeAll(0) == fresh);
}

TEST_CASE("chunks encoded at the same time give the bytes of one after the other") {
  const auto dtype = GENERATE(local::DType::kFp32, local::DType::kBf16);
  std::vector<local::TensorRecord> records = {
      Record("a", {5 * compression::kChunkElements}, dtype)};
  std::vector<std::vector<std::vector<uint8_t>>> results;
  for (int threads : {1, 4}) {
    Model model(records, "int4:ef");
    model.Publish(0, 0, [](uint64_t i) { return Noise(1, i); });
    model.Write(0, [](uint64_t i) { return Noise(2, i); });
    REQUIRE(model.endpoint->Begin(0, 0, 1, 77).ok());
    std::vector<std::vector<uint8_t>> chunks(5);
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        for (uint32_t c = t; c < 5; c += threads) {
          chunks[c].resize(model.endpoint->EncodedSizeMax(0, c));
          chunks[c].resize(model.endpoint->EncodeChunk(0, c, absl::MakeSpan(chunks[c])).bytes);
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    model.endpoint->Commit(0);
    results.push_back(std::move(chunks));
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("a NaN is named by its tensor") {
  const auto dtype = GENERATE(local::DType::kFp32, local::DType::kBf16, local::DType::kFp16);
  Model model(TwoTensors(dtype), "int4:ef");
  const uint64_t first_of_b = model.layout->placements()[1].first_element;
  const auto with_nan = [&](float bad) {
    model.Write(0, [=](uint64_t i) { return i == first_of_b + 4321 ? bad : Noise(2, i); });
  };
  model.Publish(0, 0, [](uint64_t i) { return Noise(1, i); });
  with_nan(0.25f);
  CHECK(!model.endpoint->NonFiniteInSnapshot(0));
  for (float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    with_nan(bad);
    CHECK(model.endpoint->NonFiniteInSnapshot(0) == std::string("b"));
    REQUIRE(model.endpoint->Begin(0, 0, 1, 1).ok());
    std::vector<uint8_t> out(model.endpoint->EncodedSizeMax(0, 1));
    const EncodedChunk chunk = model.endpoint->EncodeChunk(0, 1, absl::MakeSpan(out));
    CHECK(chunk.nonfinite == 1);
    CHECK(chunk.nonfinite_tensor == "b");
    out.resize(chunk.bytes);
    CHECK(compression::ChunkNonFinite(out));
    model.endpoint->Drop(0);
  }
}

TEST_CASE("offered parameters: loaded in fp32, matched bit by bit, comparable by digest") {
  const auto dtype = GENERATE(local::DType::kFp32, local::DType::kBf16);
  Model model({Record("a", {300}, dtype), Record("b", {70000}, dtype)}, "fp32", true, 2);
  for (uint32_t f = 0; f < 2; ++f) {
    model.Write(f, [](uint64_t i) { return Noise(9, i); });
    // What a trainer leaves in the padding is not part of its parameters.
    std::memset(model.snapshot + model.layout->fragments()[0].snapshot_offset +
                    300 * schema::DTypeBytes(dtype),
                0xff, 16);
    absl::Span<float> slot = model.endpoint->WritableValue(f, 0);
    model.endpoint->LoadSnapshot(f, slot);
    model.endpoint->Publish(f, 0);
  }
  CHECK(model.endpoint->Value(0, 0)[301] == 0.0f);
  CHECK(model.endpoint->SnapshotMatches(0, 0));
  CHECK(model.endpoint->SnapshotMatches(1, 0));
  CHECK(model.endpoint->SnapshotDigest() == model.endpoint->ValuesDigest({0, 0}));
  model.Write(1, [](uint64_t i) { return i == 69999 ? 1.0f : Noise(9, i); });
  CHECK(!model.endpoint->SnapshotMatches(1, 0));
  CHECK(model.endpoint->SnapshotDigest() != model.endpoint->ValuesDigest({0, 0}));
}

TEST_CASE("a trainer can neither resize the segments nor write the values") {
  Model model({Record("a", {4096})}, "fp32");
  for (int descriptor :
       {model.endpoint->snapshot_descriptor(), model.endpoint->values_descriptor()}) {
    const int trainers = dup(descriptor);
    for (off_t size : {off_t{0}, off_t{4096}, off_t{1} << 30}) {
      CHECK(ftruncate(trainers, size) == -1);
      CHECK(errno == EPERM);
    }
    CHECK(fcntl(trainers, F_ADD_SEALS, F_SEAL_WRITE) == -1);
    CHECK(errno == EPERM);
    close(trainers);
  }
  const int values = model.endpoint->values_descriptor();
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, values, 0) == MAP_FAILED);
  CHECK(errno == EPERM);
  const char byte = 1;
  CHECK(pwrite(values, &byte, 1, 0) == -1);
  void* readable = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, values, 0);
  REQUIRE(readable != MAP_FAILED);
  CHECK(mprotect(readable, 4096, PROT_READ | PROT_WRITE) == -1);
  model.Publish(0, 0, [](uint64_t) { return 2.5f; });
  CHECK(static_cast<float*>(readable)[0] == 2.5f);  // read in place
  munmap(readable, 4096);
}

TEST_CASE("the smallest fragments: empty tensors, one element") {
  for (const char* codec : {"fp32", "int4:ef"}) {
    Model model({Record("empty", {0}), Record("one", {1}),
                 Record("mean", {0}, local::DType::kFp32, local::Group::kBuffer)},
                codec);
    for (uint32_t f = 0; f < model.layout->fragments().size(); ++f) {
      model.Publish(f, 0, [](uint64_t) { return 3.0f; });
      model.Write(f, [](uint64_t) { return 1.0f; });
      REQUIRE(model.endpoint->Begin(f, 0, 1, 1).ok());
      const std::vector<float> sent = model.Decode(f, model.EncodeAll(f));
      CHECK(sent[0] == Approx(f == 0 ? 2.0f : 0.0f).epsilon(0.01));
      model.endpoint->Commit(f);
    }
  }
}

}  // namespace
}  // namespace causeway::endpoint
