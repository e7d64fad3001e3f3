// Encoded chunks as they travel: plain, or packed by the lossless stage where their codec has it.
// Pure functions for workers.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_PACKING_H_
#define CAUSEWAY_DAEMON_EXCHANGE_PACKING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/codec.h"
#include "compression/entropy.h"
#include "daemon/exchange/entropy_pool.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

inline absl::Span<const uint8_t> BytesOf(const memory::SharedBuffer& buffer) {
  return {reinterpret_cast<const uint8_t*>(buffer.data()), buffer.size()};
}

// Puts the chunk's packed form into its place where that is smaller. `packed` has the chunk's size
// and is spent.
void PackIfSmaller(EntropyPool* entropy, memory::Buffer* chunk, memory::Buffer* packed);

// Bytes of a contributor, an owner or a donor, and what they are said to be.
struct EncodedPart {
  memory::SharedBuffer payload;
  compression::CodecSpec codec;
  bool trusted = false;  // this gateway encoded it
};

// Calls use(plain chunk) once everything that makes the bytes safe to decode is checked; the error
// otherwise.
template <typename Use>
absl::Status Open(EntropyPool* entropy, const EncodedPart& part, uint32_t elements, Use use) {
  const absl::Span<const uint8_t> bytes = BytesOf(part.payload);
  if (!part.codec.entropy) {
    if (!part.trusted) {
      absl::Status good = compression::CheckChunk(part.codec, elements, bytes);
      if (!good.ok()) return good;
    }
    use(bytes);
    return absl::OkStatus();
  }
  return entropy->With([&](compression::EntropyWorkspace* workspace) {
    const auto plain = compression::OpenChunk(part.codec, elements, bytes, workspace);
    if (plain.ok()) use(*plain);
    return plain.status();
  });
}

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_PACKING_H_
