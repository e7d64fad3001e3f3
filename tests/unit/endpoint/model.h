// A small model for endpoint tests: schema, layout, budget and a snapshot to write into.
#ifndef CAUSEWAY_TESTS_UNIT_ENDPOINT_MODEL_H_
#define CAUSEWAY_TESTS_UNIT_ENDPOINT_MODEL_H_

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "compression/vector.h"
#include "daemon/endpoint/endpoint.h"
#include "tests/unit/schema/records.h"

namespace causeway::testing {

inline compression::CodecSpec Codec(const std::string& text) {
  auto spec = compression::CodecSpec::Parse(text);
  REQUIRE(spec.ok());
  return *spec;
}

// A deterministic value in [-0.5, 0.5).
inline float Noise(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<float>(static_cast<double>((z ^ (z >> 31)) >> 40) / (1 << 24) - 0.5);
}

class Model {
 public:
  Model(const std::vector<local::TensorRecord>& records, const std::string& codec,
        bool outer = true, uint32_t fragments = 1, endpoint::Correction correction = {},
        compression::DType residual = compression::DType::kBf16) {
    auto parsed = schema::Schema::Parse(BytesOf(records), static_cast<uint32_t>(records.size()));
    REQUIRE(parsed.ok());
    schema = std::make_shared<schema::Schema>(*std::move(parsed));
    auto built = schema::Layout::Build(*schema, fragments);
    REQUIRE(built.ok());
    layout = std::make_shared<schema::Layout>(*std::move(built));
    budget = memory::Budget::Create(memory::Budget::kUnlimited);
    account = *budget->Open("endpoint");
    endpoint::Options options;
    options.run = "demo";
    options.codec = Codec(codec);
    options.residual = residual;
    options.outer = outer;
    options.encoders_max = 2;
    options.correction = correction;
    auto made = endpoint::LocalEndpoint::Create(schema, layout, options, account);
    INFO(made.status().message());
    REQUIRE(made.ok());
    endpoint = *std::move(made);
    // As a trainer maps it.
    snapshot =
        static_cast<std::byte*>(mmap(nullptr, layout->snapshot_bytes(), PROT_READ | PROT_WRITE,
                                     MAP_SHARED, endpoint->snapshot_descriptor(), 0));
    REQUIRE(snapshot != MAP_FAILED);
  }
  ~Model() { munmap(snapshot, layout->snapshot_bytes()); }

  // Writes value(i) to element i of every tensor of a fragment, in the fragment's dtype.
  template <typename ValueOf>
  void Write(uint32_t fragment, ValueOf value) {
    const local::FragmentRecord& record = layout->fragments()[fragment];
    const auto dtype = static_cast<compression::DType>(record.dtype);
    layout->ForEachTensor(fragment, [&](uint32_t, uint64_t first, uint64_t elements) {
      std::vector<float> values(elements);
      for (uint64_t i = 0; i < elements; ++i) values[i] = value(first + i);
      compression::CastFromFp32(
          values.data(), elements, dtype,
          snapshot + record.snapshot_offset + first * compression::DTypeBytes(dtype));
    });
  }

  // Fills and publishes a value.
  template <typename ValueOf>
  void Publish(uint32_t fragment, int64_t round, ValueOf value) {
    absl::Span<float> slot = endpoint->WritableValue(fragment, round);
    std::fill(slot.begin(), slot.end(), 0.0f);
    layout->ForEachTensor(fragment, [&](uint32_t, uint64_t first, uint64_t elements) {
      for (uint64_t i = first; i < first + elements; ++i) slot[i] = value(i);
    });
    endpoint->Publish(fragment, round);
  }

  // Encodes all chunks in order.
  std::vector<std::vector<uint8_t>> EncodeAll(uint32_t fragment) {
    std::vector<std::vector<uint8_t>> chunks;
    for (uint32_t c = 0; c < layout->fragments()[fragment].chunks; ++c) {
      std::vector<uint8_t> out(endpoint->EncodedSizeMax(fragment, c));
      out.resize(endpoint->EncodeChunk(fragment, c, absl::MakeSpan(out)).bytes);
      chunks.push_back(std::move(out));
    }
    return chunks;
  }

  std::vector<float> Decode(uint32_t fragment, const std::vector<std::vector<uint8_t>>& chunks) {
    std::vector<float> values(layout->fragments()[fragment].elements);
    for (uint32_t c = 0; c < chunks.size(); ++c) {
      const uint32_t n = layout->ChunkElements(fragment, c);
      REQUIRE(compression::CheckChunk(endpoint->options().codec, n, chunks[c]).ok());
      compression::DecodeChunk(chunks[c],
                               values.data() + uint64_t{c} * compression::kChunkElements);
    }
    return values;
  }

  std::shared_ptr<schema::Schema> schema;
  std::shared_ptr<schema::Layout> layout;
  std::shared_ptr<memory::Budget> budget;
  std::shared_ptr<memory::Account> account;
  std::unique_ptr<endpoint::LocalEndpoint> endpoint;
  std::byte* snapshot = nullptr;
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_ENDPOINT_MODEL_H_
