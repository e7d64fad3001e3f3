// See digest.h. OpenSSL's one-shot call fails only without memory, which aborts elsewhere.
#include "daemon/digest/digest.h"

#include <openssl/evp.h>

#include <cassert>
#include <vector>

namespace causeway::digest {

engine::Hash256 Sha256(absl::Span<const uint8_t> bytes) {
  engine::Hash256 out{};
  unsigned int size = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, EVP_sha256(), nullptr);
  assert(ok == 1 && size == out.size());
  (void)ok;
  return out;
}

engine::Hash256 HashOfHashes(absl::Span<const engine::Hash64> hashes) {
  std::vector<uint8_t> bytes;
  bytes.reserve(hashes.size() * sizeof(engine::Hash64));
  for (engine::Hash64 hash : hashes) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes.push_back(static_cast<uint8_t>(hash >> shift));
    }
  }
  return Sha256(bytes);
}

}  // namespace causeway::digest
