// Damaged and forged chunks are refused by name.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "compression/chunk_header.h"
#include "compression/codec.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

using samples::Encode;

// What a forger can do: change bytes and repair the checksum.
void Repair(std::vector<uint8_t>* bytes) {
  ChunkHeader header = ReadHeader(bytes->data());
  header.crc32c = ChunkCrc32c(*bytes);
  WriteHeader(header, bytes->data());
}

TEST_CASE("every single-byte change is noticed") {
  for (const char* text : {"fp32", "bf16", "int8", "int4"}) {
    CodecSpec spec = CodecSpec::Parse(text).value();
    std::vector<uint8_t> good = Encode(spec, samples::Noise(100, 1));
    REQUIRE(CheckChunk(spec, 100, good).ok());
    for (size_t i = 0; i < good.size(); ++i) {
      std::vector<uint8_t> bad = good;
      bad[i] ^= 0x10;
      CAPTURE(text, i);
      CHECK_FALSE(CheckChunk(spec, 100, bad).ok());
    }
  }
}

TEST_CASE("every wrong length is refused") {
  CodecSpec spec = CodecSpec::Parse("int4").value();
  std::vector<uint8_t> good = Encode(spec, samples::Noise(100, 1));
  for (size_t size = 0; size < good.size(); ++size) {
    CHECK_FALSE(CheckChunk(spec, 100, absl::MakeConstSpan(good.data(), size)).ok());
  }
  good.push_back(0);
  CHECK_FALSE(CheckChunk(spec, 100, good).ok());
}

TEST_CASE("forged headers with a correct checksum are refused") {
  CodecSpec spec = CodecSpec::Parse("int4").value();
  const std::vector<uint8_t> good = Encode(spec, samples::Noise(100, 1));
  auto refused = [&](auto change) {
    std::vector<uint8_t> bad = good;
    ChunkHeader header = ReadHeader(bad.data());
    change(&header);
    WriteHeader(header, bad.data());
    Repair(&bad);
    return absl::IsInvalidArgument(CheckChunk(spec, 100, bad));
  };
  CHECK(refused([](ChunkHeader* h) { h->magic = 1; }));
  CHECK(refused([](ChunkHeader* h) { h->codec = 3; }));
  CHECK(refused([](ChunkHeader* h) { h->codec = 255; }));
  CHECK(refused([](ChunkHeader* h) { h->source_dtype = 3; }));
  CHECK(refused([](ChunkHeader* h) { h->log2_block = 7; }));
  CHECK(refused([](ChunkHeader* h) { h->scale_type = 0; }));
  CHECK(refused([](ChunkHeader* h) { h->flags = kFlagErrorFeedback; }));
  CHECK(refused([](ChunkHeader* h) { h->flags = kFlagNonFinite; }));
  CHECK(refused([](ChunkHeader* h) { h->flags = kFlagEntropy; }));
  CHECK(refused([](ChunkHeader* h) { h->flags = 0x8000; }));
  CHECK(refused([](ChunkHeader* h) { h->entropy = 1; }));
  CHECK(refused([](ChunkHeader* h) { h->reserved = 1; }));
  CHECK(refused([](ChunkHeader* h) { h->n = 101; }));
  CHECK(refused([](ChunkHeader* h) { h->n = 0xffffffffu; }));
  CHECK(refused([](ChunkHeader* h) { h->scale_bytes = 0; }));
  CHECK(refused([](ChunkHeader* h) { h->code_bytes = 0xffffffc0u; }));
  CHECK(refused([](ChunkHeader* h) { h->seed = 1; }));
}

TEST_CASE("scales that no encoder writes are refused") {
  CodecSpec spec = CodecSpec::Parse("int4").value();
  const std::vector<uint8_t> good = Encode(spec, samples::Noise(100, 1));
  for (uint16_t stored : {0x8000, 0xbf80, 0x7f80, 0xff80, 0x7fc1, 0xffc0, 0x7f7f, 0x7f00}) {
    std::vector<uint8_t> bad = good;
    std::memcpy(bad.data() + kChunkHeaderBytes, &stored, 2);
    ChunkHeader header = ReadHeader(bad.data());
    header.flags |= kFlagNonFinite;
    WriteHeader(header, bad.data());
    Repair(&bad);
    CAPTURE(stored);
    CHECK(absl::IsInvalidArgument(CheckChunk(spec, 100, bad)));
  }
  std::vector<uint8_t> padded = good;
  padded[kChunkHeaderBytes + 5] = 1;
  Repair(&padded);
  CHECK(absl::IsInvalidArgument(CheckChunk(spec, 100, padded)));
}

TEST_CASE("a non-finite value without its flag is refused") {
  for (const char* text : {"fp32", "bf16", "fp16", "int8", "int4"}) {
    CodecSpec spec = CodecSpec::Parse(text).value();
    std::vector<float> values = samples::Noise(100, 1);
    values[9] = INFINITY;
    std::vector<uint8_t> bad = Encode(spec, values);
    REQUIRE(CheckChunk(spec, 100, bad).ok());
    ChunkHeader header = ReadHeader(bad.data());
    CHECK(header.flags == kFlagNonFinite);
    header.flags = 0;
    WriteHeader(header, bad.data());
    Repair(&bad);
    CAPTURE(text);
    CHECK(absl::IsInvalidArgument(CheckChunk(spec, 100, bad)));
  }
}

TEST_CASE("any code bytes decode to finite values") {
  for (const char* text : {"int8", "int4"}) {
    CodecSpec spec = CodecSpec::Parse(text).value();
    std::vector<float> largest(512, 0x1.fffffep+126f);
    std::vector<uint8_t> bytes = Encode(spec, largest);
    const size_t codes = ReadHeader(bytes.data()).scale_bytes + kChunkHeaderBytes;
    for (size_t i = codes; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37);
    Repair(&bytes);
    REQUIRE(CheckChunk(spec, 512, bytes).ok());
    for (float x : samples::Decode(bytes, 512)) REQUIRE(std::isfinite(x));
  }
}

}  // namespace
}  // namespace causeway::compression
