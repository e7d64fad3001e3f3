// Snapshots in a device's memory: the same bytes and residuals as from the segment, whoever
// encodes; NaNs found there; a device that fails is reported, not worked around.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/endpoint/model.h"
#include "tests/unit/gpu/stand_in.h"

namespace causeway::testing {
namespace {

constexpr uint64_t kElements = compression::kChunkElements + 5000;

// A model of two tensors whose trainer has a GPU, and its twin without.
struct Twins {
  explicit Twins(const std::string& codec, local::DType dtype = local::DType::kFp32)
      : device(Records(dtype), codec), host(Records(dtype), codec) {
    auto made = gpu->Allocate(device.layout->snapshot_bytes());
    REQUIRE(made.ok());
    memory = (*made)->data();
    auto mapped = device.endpoint->MapDevice(gpu, *std::move(made), device.account);
    REQUIRE(mapped.ok());
    shared = *std::move(mapped);
    for (Model* model : {&device, &host}) {
      model->Publish(0, 0, [](uint64_t i) { return Noise(1, i); });
    }
  }
  static std::vector<local::TensorRecord> Records(local::DType dtype) {
    return {Record("a", {kElements}, dtype), Record("b", {300}, dtype)};
  }
  // What a trainer submits: into its device here, into the segment there.
  template <typename ValueOf>
  void Submit(ValueOf value) {
    host.Write(0, value);
    const auto bytes = host.layout->snapshot_bytes();
    std::memcpy(memory, host.snapshot, bytes);
    std::memset(device.snapshot, 0xff, bytes);  // nobody looks here
    device.endpoint->SnapshotIn(0, shared);
  }
  std::vector<std::vector<uint8_t>> Round(Model& model, int64_t round) {
    REQUIRE(model.endpoint->Begin(0, round, 3, 77).ok());
    return model.EncodeAll(0);
  }

  std::shared_ptr<StandInGpu> gpu = std::make_shared<StandInGpu>();
  Model device;
  Model host;
  std::shared_ptr<const endpoint::DeviceSnapshots> shared;
  std::byte* memory = nullptr;

  absl::StatusOr<std::optional<std::string>> NonFinite() {
    return device.endpoint->NonFiniteIn(shared.get(), 0);
  }
};

TEST_CASE("a device's snapshot is encoded to the same bytes, residual included") {
  for (const char* codec : {"int8:ef", "int4:b64:ef", "sign:ef", "fp32"}) {
    for (local::DType dtype : {local::DType::kFp32, local::DType::kBf16}) {
      CAPTURE(codec, static_cast<int>(dtype));
      Twins twins(codec, dtype);
      for (int round = 0; round < 3; ++round) {
        twins.Submit([&](uint64_t i) { return Noise(1, i) + 0.01f * Noise(10 + round, i); });
        CHECK(twins.Round(twins.device, 0) == twins.Round(twins.host, 0));
        if (round == 1) {
          twins.device.endpoint->Drop(0);
          twins.host.endpoint->Drop(0);
        } else {
          twins.device.endpoint->Commit(0);
          twins.host.endpoint->Commit(0);
        }
      }
      CHECK(twins.gpu->encoded == 6);  // two chunks a round
    }
  }
}

TEST_CASE("codecs without kernels are the CPU's, from the device's memory") {
  for (local::DType dtype : {local::DType::kFp32, local::DType::kBf16}) {
    Twins twins("2bit:ef", dtype);
    for (int round = 0; round < 2; ++round) {
      twins.Submit([&](uint64_t i) { return Noise(1, i) + 0.01f * Noise(20 + round, i); });
      CHECK(twins.Round(twins.device, 0) == twins.Round(twins.host, 0));
      twins.device.endpoint->Commit(0);
      twins.host.endpoint->Commit(0);
    }
    CHECK(twins.gpu->encoded == 0);
  }
}

TEST_CASE("each submission says where its snapshot lies") {
  Twins twins("int8:ef");
  for (int round = 0; round < 4; ++round) {
    const auto value = [&](uint64_t i) { return Noise(30 + round, i); };
    twins.Submit(value);
    const bool on_device = round % 2 == 0;
    twins.device.endpoint->SnapshotIn(0, on_device ? twins.shared : nullptr);
    if (!on_device) {
      std::memcpy(twins.device.snapshot, twins.host.snapshot, twins.host.layout->snapshot_bytes());
    }
    CHECK(twins.Round(twins.device, 0) == twins.Round(twins.host, 0));
    twins.device.endpoint->Commit(0);
    twins.host.endpoint->Commit(0);
  }
  CHECK(twins.gpu->encoded == 4);
  twins.shared.reset();  // the trainer leaves
  CHECK(twins.gpu.use_count() == 1);
}

TEST_CASE("a trainer that dies takes nothing from under its open contribution") {
  Twins twins("int8:ef");
  twins.Submit([](uint64_t i) { return Noise(40, i); });
  REQUIRE(twins.device.endpoint->Begin(0, 0, 3, 77).ok());
  twins.shared.reset();
  twins.device.endpoint->SnapshotIn(0, nullptr);  // the next one's
  CHECK(twins.gpu.use_count() == 2);
  CHECK(twins.device.EncodeAll(0) == twins.Round(twins.host, 0));
  CHECK(twins.gpu.use_count() == 1);  // retained bytes need no device
}

TEST_CASE("a NaN in a device's memory is found by its tensor's name, and padding is nobody's") {
  Twins twins("int4");
  twins.Submit([](uint64_t i) { return Noise(5, i); });
  REQUIRE(twins.NonFinite().ok());
  CHECK_FALSE(twins.NonFinite()->has_value());
  CHECK(twins.gpu->scanned == 2);
  auto* values = reinterpret_cast<float*>(twins.memory);
  values[kElements + 3] = NAN;  // between the tensors
  CHECK_FALSE(twins.NonFinite()->has_value());
  uint64_t second = 0;
  twins.device.layout->ForEachTensor(0,
                                     [&](uint32_t, uint64_t first, uint64_t) { second = first; });
  values[second + 299] = INFINITY;
  CHECK(*twins.NonFinite() == "b");
  values[kElements - 1] = -INFINITY;
  CHECK(*twins.NonFinite() == "a");
}

TEST_CASE("a device that fails says so with every chunk") {
  for (const char* codec : {"int8:ef", "2bit:ef"}) {
    Twins twins(codec);
    twins.Submit([](uint64_t i) { return Noise(5, i); });
    REQUIRE(twins.device.endpoint->Begin(0, 0, 1, 0).ok());
    twins.gpu->broken = true;
    std::vector<uint8_t> out(twins.device.endpoint->EncodedSizeMax(0, 0));
    const auto chunk = twins.device.endpoint->EncodeChunk(0, 0, absl::MakeSpan(out));
    CHECK(chunk.status.code() == absl::StatusCode::kUnavailable);
    CHECK(chunk.bytes == 0);
    CHECK_FALSE(twins.device.endpoint->Encoded(0));
    twins.device.endpoint->Drop(0);
    CHECK(twins.NonFinite().status().code() == absl::StatusCode::kUnavailable);
    twins.gpu->broken = false;
    twins.device.endpoint->SnapshotIn(0, twins.shared);  // the next submission
    REQUIRE(twins.device.endpoint->Begin(0, 0, 1, 0).ok());
    CHECK(twins.device.endpoint->EncodeChunk(0, 0, absl::MakeSpan(out)).status.ok());
    twins.device.endpoint->Drop(0);
  }
}

TEST_CASE("memory that is too small is refused") {
  Model model(Twins::Records(local::DType::kFp32), "int8");
  auto gpu = std::make_shared<StandInGpu>();
  auto small = gpu->Allocate(model.layout->snapshot_bytes() - 1);
  const auto mapped = model.endpoint->MapDevice(gpu, *std::move(small), model.account);
  CHECK(mapped.status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace causeway::testing
