// SHA-256 as the daemon names things by it: results, states, configurations, files.
//
// Pure functions, any thread. Does not: hash values chunk by chunk (compression/vector.h, 64 bits;
// the list of those is what is hashed here).
#ifndef CAUSEWAY_DAEMON_DIGEST_DIGEST_H_
#define CAUSEWAY_DAEMON_DIGEST_DIGEST_H_

#include <cstdint>

#include "absl/types/span.h"
#include "daemon/engine/ids.h"

namespace causeway::digest {

engine::Hash256 Sha256(absl::Span<const uint8_t> bytes);
// Over the hashes as little-endian u64.
engine::Hash256 HashOfHashes(absl::Span<const engine::Hash64> hashes);

}  // namespace causeway::digest

#endif  // CAUSEWAY_DAEMON_DIGEST_DIGEST_H_
