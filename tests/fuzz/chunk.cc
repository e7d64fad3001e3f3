// Encoded chunks from a peer: whatever passes the checks decodes inside its buffer, to what the
// flags say. Compiled once for each codec, CAUSEWAY_FUZZ_CODEC. Input: u8 (bit 0: repair the
// checksum, as a forger would), u24 number of elements, then the chunk.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "compression/chunk_header.h"
#include "compression/entropy.h"

namespace {

using namespace causeway::compression;

void Require(bool condition) {
  if (!condition) std::abort();
}

void Repair(std::vector<uint8_t>* chunk) {
  if (chunk->size() < kChunkHeaderBytes) return;
  ChunkHeader header = ReadHeader(chunk->data());
  header.crc32c = ChunkCrc32c(*chunk);
  WriteHeader(header, chunk->data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const CodecSpec spec = CodecSpec::Parse(CAUSEWAY_FUZZ_CODEC).value();
  static EntropyWorkspace workspace;
  if (size < 4) return 0;
  const uint32_t n =
      (data[1] | data[2] << 8 | static_cast<uint32_t>(data[3]) << 16) % (kChunkElements + 1);
  std::vector<uint8_t> chunk(data + 4, data + size);
  if ((data[0] & 1) != 0) Repair(&chunk);
  auto plain = OpenChunk(spec, n, chunk, &workspace);
  if (!plain.ok()) return 0;
  std::unique_ptr<float[]> out(new float[n]);  // exactly n: a write beyond is seen
  DecodeChunk(*plain, out.get());
  bool finite = true;
  for (uint32_t i = 0; i < n; ++i) finite = finite && std::isfinite(out[i]);
  Require(finite || ChunkNonFinite(*plain));
  DecodeAccumulate(*plain, 0.5f, out.get());
  return 0;
}
