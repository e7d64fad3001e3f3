// The lossless stage behind the codecs: the code plane of a chunk as one zstd frame of Huffman
// literals.
//
// Optional per chunk: a receiver of a run whose codec says "zstd" accepts packed and plain chunks
// alike, so the sender decides chunk by chunk. Scales stay as they are. FORMAT.md has the bytes.
//   sender:    size = EncodeChunk(...);
//              chunk = PackChunk(chunk, site, &workspace, out);  // maybe smaller
//   receiver:  StatusOr<Span> plain = OpenChunk(spec, n, bytes, &workspace);  // for CheckChunk
//              DecodeAccumulate(*plain, ...);  // before the next OpenChunk
// Does not know the link: EntropyPays holds the rule, the caller the figures.
#ifndef CAUSEWAY_COMPRESSION_ENTROPY_H_
#define CAUSEWAY_COMPRESSION_ENTROPY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/codec.h"

namespace causeway::compression {

// Below this estimated ratio a chunk is sent plain.
inline constexpr double kEntropyRatioMin = 1.05;
// Bytes of one core's packing per second, for EntropyPays.
inline constexpr double kEntropyBytesPerSecond = 1e9;

struct PackingSite;

// Contexts and buffers of the stage, reused from chunk to chunk; about 1.5 MiB when warm, a fixed
// bound. One for each worker thread; confined to it.
class EntropyWorkspace {
 public:
  EntropyWorkspace();
  ~EntropyWorkspace();
  EntropyWorkspace(EntropyWorkspace&&) noexcept;
  EntropyWorkspace& operator=(EntropyWorkspace&&) noexcept;

 private:
  friend absl::Span<const uint8_t> PackChunk(absl::Span<const uint8_t>, const PackingSite&,
                                             EntropyWorkspace*, absl::Span<uint8_t>);
  friend absl::StatusOr<absl::Span<const uint8_t>> OpenChunk(const CodecSpec&, uint32_t,
                                                             absl::Span<const uint8_t>,
                                                             EntropyWorkspace*);
  struct State;
  std::unique_ptr<State> state_;
};

// Order-0 ratio that a byte-wise entropy coder reaches, from a sample of at most 64 KiB spread over
// `bytes`.
double EstimateEntropyRatio(absl::Span<const uint8_t> bytes);

// Whether the cores that would idle can pack at the rate at which the link drains packed bytes.
bool EntropyPays(double ratio, double idle_cores, double link_bytes_per_second);

// Where a packed chunk is made and goes.
struct PackingSite {
  double idle_cores = 1;
  double link_bytes_per_second = 0;  // 0: not known; packing then counts as fast enough
};

// Packs a plain chunk into `out` (at least as large as the chunk) where that pays and makes it
// smaller by the minimum ratio; returns the packed chunk, or `chunk` itself when it stays plain.
absl::Span<const uint8_t> PackChunk(absl::Span<const uint8_t> chunk, const PackingSite& site,
                                    EntropyWorkspace* workspace, absl::Span<uint8_t> out);

// CheckChunk for plain and, where expected.entropy, packed chunks. Returns the plain chunk: `bytes`
// itself, or a copy in the workspace that lasts until its next use. Nothing is allocated by what a
// peer claims.
absl::StatusOr<absl::Span<const uint8_t>> OpenChunk(const CodecSpec& expected, uint32_t expected_n,
                                                    absl::Span<const uint8_t> bytes,
                                                    EntropyWorkspace* workspace);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_ENTROPY_H_
