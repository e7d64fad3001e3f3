// One checkpoint file: a header and a few stretches of memory, written so that a reader knows
// whether it is whole.
//
// Layout, little-endian: "CWCKPT1\n"; u32 header bytes; u32 sections; u64 bytes of each section;
// the header; the sections one after the other; u64 content hash (compression/vector.h) of every
// block of kBlockBytes of each section, the last one shorter; SHA-256 over everything but the
// sections. Size and digest are checked before a byte of it is used, each block's hash as it is
// read.
//
// Pure file work: any thread, blocking. Knows nothing of runs: what the header says is its
// writer's.
#ifndef CAUSEWAY_DAEMON_CHECKPOINT_FILE_H_
#define CAUSEWAY_DAEMON_CHECKPOINT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace causeway::checkpoint {

inline constexpr size_t kHeaderBytesMax = 16 << 20;
inline constexpr size_t kSectionsMax = 4;
inline constexpr uint64_t kSectionBytesMax = uint64_t{1} << 44;
inline constexpr size_t kBlockBytes = 1 << 20;

// Writes `path` anew, mode 0600. `after_section(i)` is called when section i has been read from
// memory and handed to the kernel: its memory may change from then on. What is on disk is complete
// when this returns ok, and durable (fsync). After an error the file is gone; the message names the
// path and the cause. `wanted` (null: always) is asked before a block is read and once more when a
// section has been, before after_section: CANCELLED as soon as it says no; what memory holds is of
// no use any more.
absl::Status WriteFile(const std::string& path, const std::string& header,
                       absl::Span<const absl::Span<const uint8_t>> sections,
                       const std::function<void(size_t)>& after_section,
                       const std::function<bool()>& wanted = nullptr);

// A file whose size and digest are good. Movable; closes on destruction.
class File {
 public:
  // NOT_FOUND: there is none. DATA_LOSS: torn, altered or not a checkpoint; the message names it.
  static absl::StatusOr<File> Open(const std::string& path);
  File(File&& other) noexcept { *this = std::move(other); }
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& header() const { return header_; }
  size_t sections() const { return sizes_.size(); }
  uint64_t size(size_t section) const { return sizes_.at(section); }

  // Fills `out`, which has the section's size, and checks it. After an error `out` is undefined.
  absl::Status Read(size_t section, absl::Span<uint8_t> out) const;

 private:
  File() = default;

  std::string path_;
  int descriptor_ = -1;
  std::string header_;
  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> offsets_;
  std::vector<std::vector<uint64_t>> hashes_;  // by section, by block
};

}  // namespace causeway::checkpoint

#endif  // CAUSEWAY_DAEMON_CHECKPOINT_FILE_H_
