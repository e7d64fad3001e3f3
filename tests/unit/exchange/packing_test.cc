// Packing decides chunk by chunk, from the chunk, the line and the cores, and counts what it wins.
#include "daemon/exchange/packing.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace causeway::exchange {
namespace {

constexpr uint32_t kElements = 20'000;

struct Fixture {
  std::shared_ptr<memory::Budget> budget = memory::Budget::Create(1 << 24);
  memory::BufferPool pool{budget, *budget->Open("chunks"), 0};
  EntropyPool entropy;

  // Of a bell-shaped (or, without `bell`, even) vector; its size before and after.
  std::pair<size_t, size_t> Pack(const char* codec, bool bell) {
    const compression::CodecSpec spec = *compression::CodecSpec::Parse(codec);
    std::vector<float> values(kElements);
    uint64_t state = 7;
    for (float& value : values) {
      double sum = 0;
      for (int i = 0; i < (bell ? 8 : 1); ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += static_cast<double>(state >> 40) * 0x1p-24 - 0.5;
      }
      value = static_cast<float>(sum);
    }
    compression::EncodeInput input;
    input.snapshot = values.data();
    input.n = kElements;
    memory::Buffer chunk = *pool.Allocate(compression::EncodedSizeMax(spec, kElements));
    compression::EncodeStats stats;
    auto* bytes = reinterpret_cast<uint8_t*>(chunk.data());
    chunk.Resize(compression::EncodeChunk(spec, input, {bytes, chunk.size()}, &stats));
    const size_t plain = chunk.size();
    memory::Buffer packed = *pool.Allocate(plain);
    PackIfSmaller(&entropy, &chunk, &packed);
    return {plain, chunk.size()};
  }
};

TEST_CASE(
    "a chunk is packed where the line is slower than the cores, and what that wins is known") {
  Fixture f;
  CHECK(f.entropy.Ratios().empty());
  const auto [plain, sent] = f.Pack("int4:b256:zstd", true);
  CHECK(sent * 1.1 < plain);
  CHECK(f.entropy.Ratios().at(compression::CodecKind::kInt4) ==
        Approx(static_cast<double>(plain) / static_cast<double>(sent)));
  f.entropy.SetSite({2, 1e8});
  CHECK(f.Pack("int4:b256:zstd", true).second == sent);
  f.entropy.SetSite({2, 5e9});  // two cores pack 2 GB/s at most
  CHECK(f.Pack("int4:b256:zstd", true).second == plain);
}

TEST_CASE("a chunk whose codes do not repeat stays plain, and counts as such") {
  Fixture f;
  const auto [plain, sent] = f.Pack("int8:b32:zstd", false);
  CHECK(plain == sent);
  CHECK(f.entropy.Ratios().at(compression::CodecKind::kInt8) == 1.0);
}

TEST_CASE("what was won lately counts more than what was won long ago") {
  EntropyPool entropy;
  for (int i = 0; i < 1000; ++i) entropy.Count(compression::CodecKind::kInt8, 1 << 18, 1 << 18);
  for (int i = 0; i < 1000; ++i) entropy.Count(compression::CodecKind::kInt8, 1 << 18, 1 << 17);
  CHECK(entropy.Ratios().at(compression::CodecKind::kInt8) > 1.8);
}

}  // namespace
}  // namespace causeway::exchange
