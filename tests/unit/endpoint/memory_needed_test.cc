// The memory formula is what creation really reserves, and a budget that is too small says so.
#include "daemon/endpoint/memory_needed.h"

#include "tests/unit/endpoint/model.h"

namespace causeway::endpoint {
namespace {

using testing::Codec;
using testing::Model;
using testing::Record;

Matrices MatricesOf(const Model& model, const std::string& codec) {
  if (Codec(codec).kind != compression::CodecKind::kLowRank) return {};
  return {*model.schema, *model.layout, Codec(codec).rank};
}

TEST_CASE("creation reserves exactly what the formula says") {
  const std::string codec = GENERATE("fp32", "int4:ef", "lowrank:ef");
  const bool outer = GENERATE(true, false);
  const compression::DType residual =
      GENERATE(compression::DType::kBf16, compression::DType::kFp32);
  Model model(
      {Record("a", {100'000}), Record("m", {500, 300}), Record("h", {70'001}, local::DType::kBf16),
       Record("mean", {3}, local::DType::kFp32, local::Group::kBuffer)},
      codec, outer, 2, {}, residual);
  const auto parts =
      MemoryNeeded(*model.layout, MatricesOf(model, codec), Codec(codec), residual, 2, outer);
  CHECK(model.account->usage().used_bytes == TotalBytes(parts));
  model.endpoint.reset();
  CHECK(model.account->usage().used_bytes == 0);
}

TEST_CASE("gradients whose momentum is kept reserve it, and buffers to correct in") {
  Model model({Record("a", {100'000}), Record("h", {70'001}, local::DType::kBf16)},
              "topk:k100:v4:ef", false, 1, {0.9, 1.0});
  const auto parts =
      MemoryNeeded(*model.layout, {}, Codec("topk:k100:v4:ef"), compression::DType::kBf16, 2, false,
                   /*corrects=*/true);
  CHECK(model.account->usage().used_bytes == TotalBytes(parts));
}

TEST_CASE("bytes per parameter") {
  const auto total = [](local::DType dtype, const char* codec,
                        compression::DType residual = compression::DType::kBf16) {
    double bytes = 0;
    for (const MemoryPart& part : MemoryNeeded(1'000'000, dtype, Codec(codec), residual, 8)) {
      bytes += part.bytes_per_element;
      if (part.bytes_per_element > 0) {
        CHECK(static_cast<double>(part.bytes) == part.bytes_per_element * 1e6);
      }
    }
    return bytes;
  };
  CHECK(total(local::DType::kFp32, "fp32") == 12);
  CHECK(total(local::DType::kFp32, "int4:ef") == 16);
  CHECK(total(local::DType::kFp32, "int4:ef", compression::DType::kFp32) == 20);
  CHECK(total(local::DType::kBf16, "int4:ef") == 14);
  CHECK(total(local::DType::kFp32, "lowrank:r4:ef") == Approx(16 + 4 * 512 * 2 / 262144.0));
}

TEST_CASE("a budget that is too small refuses, names the part and leaves nothing reserved") {
  const std::vector<local::TensorRecord> records = {Record("a", {1'000'000})};
  auto schema =
      std::make_shared<schema::Schema>(*schema::Schema::Parse(testing::BytesOf(records), 1));
  auto layout = std::make_shared<schema::Layout>(*schema::Layout::Build(*schema, 1));
  for (uint64_t limit : {1'000'000, 5'000'000, 13'000'000}) {
    auto budget = memory::Budget::Create(limit);
    auto account = *budget->Open("endpoint");
    Options options;
    options.run = "demo";
    options.codec = Codec("int4:ef");
    const auto made = LocalEndpoint::Create(schema, layout, options, account);
    CHECK(absl::IsResourceExhausted(made.status()));
    CHECK(std::string(made.status().message()).find("run demo") != std::string::npos);
    CHECK(account->usage().used_bytes == 0);
  }
}

}  // namespace
}  // namespace causeway::endpoint
