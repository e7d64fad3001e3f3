// The lossless stage: identity, gain on real data, refusal of forged frames.
#include "compression/entropy.h"

#include <catch2/catch.hpp>

#include "compression/codec_internal.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

CodecSpec Packed(const char* text) { return CodecSpec::Parse(std::string(text) + ":zstd").value(); }

TEST_CASE("opening a packed chunk gives the plain chunk back") {
  EntropyWorkspace sender;
  EntropyWorkspace receiver;
  for (CodecSpec spec : samples::AllSpecs()) {
    spec.entropy = true;
    if (!ValidateSpec(spec).ok()) continue;
    for (const samples::Sample& sample : samples::HostileSamples()) {
      CAPTURE(spec.ToString(), sample.name);
      std::vector<uint8_t> plain = samples::Encode(spec, sample.values);
      std::vector<uint8_t> out(plain.size());
      absl::Span<const uint8_t> packed = PackChunk(plain, {}, &sender, absl::MakeSpan(out));
      CHECK(packed.size() <= plain.size());
      auto opened = OpenChunk(spec, static_cast<uint32_t>(sample.values.size()), packed, &receiver);
      REQUIRE(opened.ok());
      CHECK(*opened == absl::MakeConstSpan(plain));
    }
  }
}

TEST_CASE("codes of real data become smaller") {
  struct Row {
    const char* codec;
    double ratio;
  };
  EntropyWorkspace workspace;
  for (const Row& row : {Row{"int8", 1.05}, Row{"int4", 1.10}, Row{"int4:b256", 1.16}}) {
    CodecSpec spec = Packed(row.codec);
    std::vector<uint8_t> plain = samples::Encode(spec, samples::ReadSlice("delta_slice.f32"));
    std::vector<uint8_t> out(plain.size());
    double ratio =
        static_cast<double>(plain.size()) /
        static_cast<double>(PackChunk(plain, {}, &workspace, absl::MakeSpan(out)).size());
    CAPTURE(row.codec, ratio);
    CHECK(ratio > row.ratio);
  }
}

TEST_CASE("the rule of when the stage pays") {
  CHECK(EntropyPays(1.2, 1, 5e8));
  CHECK_FALSE(EntropyPays(1.04, 64, 1e6));  // nothing to win
  CHECK_FALSE(EntropyPays(1.2, 1, 1e9));    // the link is faster than the core
}

TEST_CASE("a chunk stays plain where the line is faster than the cores that would pack it") {
  EntropyWorkspace workspace;
  const std::vector<uint8_t> plain =
      samples::Encode(Packed("int4:b256"), samples::ReadSlice("delta_slice.f32"));
  std::vector<uint8_t> out(plain.size());
  const auto size = [&](const PackingSite& site) {
    return PackChunk(plain, site, &workspace, absl::MakeSpan(out)).size();
  };
  CHECK(size({1, 1e8}) < plain.size());
  CHECK(size({1, 1e10}) == plain.size());
  CHECK(size({0, 1e8}) == plain.size());
}

TEST_CASE("forged packed chunks are refused") {
  CodecSpec spec = Packed("int4:b256");
  EntropyWorkspace workspace;
  std::vector<uint8_t> plain = samples::Encode(spec, samples::ReadSlice("delta_slice.f32"));
  const uint32_t n = ReadHeader(plain.data()).n;
  std::vector<uint8_t> out(plain.size());
  absl::Span<const uint8_t> packed = PackChunk(plain, {}, &workspace, absl::MakeSpan(out));
  const std::vector<uint8_t> good(packed.begin(), packed.end());
  REQUIRE(good.size() < plain.size());

  auto opens = [&](std::vector<uint8_t> bytes, const CodecSpec& expected) {
    if (bytes.size() >= kChunkHeaderBytes) {
      ChunkHeader header = ReadHeader(bytes.data());
      header.crc32c = ChunkCrc32c(bytes);
      WriteHeader(header, bytes.data());
    }
    return OpenChunk(expected, n, bytes, &workspace).ok();
  };
  CHECK(opens(good, spec));
  CodecSpec plain_only = spec;
  plain_only.entropy = false;
  CHECK_FALSE(opens(good, plain_only));
  for (size_t size : {size_t{0}, size_t{31}, size_t{32}, size_t{100}, good.size() - 1}) {
    CHECK_FALSE(opens(std::vector<uint8_t>(good.begin(), good.begin() + size), spec));
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  CHECK_FALSE(opens(longer, spec));
  // Damage behind a repaired checksum: never more than the plane is written, whatever the frame
  // says.
  samples::Random random(8);
  const size_t front = kChunkHeaderBytes + ReadHeader(good.data()).scale_bytes;
  for (int k = 0; k < 500; ++k) {
    std::vector<uint8_t> bad = good;
    size_t range = k % 2 == 0 ? 16 : bad.size() - front;
    bad[front + random.Next() % range] ^= static_cast<uint8_t>(1 + random.Next() % 255);
    static_cast<void>(opens(bad, spec));
  }
  ChunkHeader header = ReadHeader(good.data());
  header.code_bytes = 0xfffffff0u;
  std::vector<uint8_t> huge = good;
  WriteHeader(header, huge.data());
  CHECK_FALSE(opens(huge, spec));
}

}  // namespace
}  // namespace causeway::compression
