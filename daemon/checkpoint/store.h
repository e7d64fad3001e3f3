// The directory of one run's checkpoints: for each fragment the current file and the one before it,
// and the schema that they are of.
//
// A fragment's file is written beside the others and renamed into place once it is on disk, the
// current one having become the previous one: whatever interrupts that, a whole file is left.
//
// Blocking file work without state of its own; Write of one fragment from one thread at a time.
// Does not: decide when to write, or which file may be used.
#ifndef CAUSEWAY_DAEMON_CHECKPOINT_STORE_H_
#define CAUSEWAY_DAEMON_CHECKPOINT_STORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/checkpoint/file.h"

namespace causeway::checkpoint {

inline constexpr size_t kSchemaBytesMax = size_t{256} << 20;

class Store {
 public:
  // Touches nothing yet. The parent of `directory` exists.
  explicit Store(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }

  // As WriteFile, then takes the place of the fragment's current file. Makes the directory.
  absl::Status Write(uint32_t fragment, const std::string& header,
                     absl::Span<const absl::Span<const uint8_t>> sections,
                     const std::function<void(size_t)>& after_section,
                     const std::function<bool()>& wanted = nullptr) const;
  // Where a fragment's files lie if there are any, the newest first.
  std::vector<std::string> Files(uint32_t fragment) const;

  // The schema's records. Written once a schema; NOT_FOUND where there is none.
  absl::Status WriteSchema(absl::Span<const uint8_t> records) const;
  absl::StatusOr<std::vector<uint8_t>> ReadSchema() const;

  // Removes all of it. Ok also where there was nothing.
  absl::Status Remove() const;
  // Keeps what is there under another name, replacing what was set aside before. False: there was
  // nothing.
  absl::StatusOr<bool> SetAside() const;

 private:
  std::string Path(uint32_t fragment, const char* which) const;
  absl::Status MakeDirectory() const;
  absl::Status SyncDirectory() const;

  const std::string directory_;
};

}  // namespace causeway::checkpoint

#endif  // CAUSEWAY_DAEMON_CHECKPOINT_STORE_H_
