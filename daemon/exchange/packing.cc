// See packing.h.
#include "daemon/exchange/packing.h"

#include <utility>

#include "compression/chunk_header.h"

namespace causeway::exchange {

void PackIfSmaller(EntropyPool* entropy, memory::Buffer* chunk, memory::Buffer* packed) {
  auto* out = reinterpret_cast<uint8_t*>(packed->data());
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(chunk->data()),
                                        chunk->size());
  const compression::PackingSite site = entropy->site();
  const size_t size = entropy->With([&](compression::EntropyWorkspace* workspace) -> size_t {
    const absl::Span<const uint8_t> made =
        compression::PackChunk(bytes, site, workspace, {out, packed->size()});
    return made.data() == out ? made.size() : 0;
  });
  const auto codec =
      static_cast<compression::CodecKind>(compression::ReadHeader(bytes.data()).codec);
  entropy->Count(codec, bytes.size(), size == 0 ? bytes.size() : size);
  if (size == 0) return;
  packed->Resize(size);
  std::swap(*chunk, *packed);
}

}  // namespace causeway::exchange
