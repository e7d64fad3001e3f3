// The engine's durable words of one run (promise, accepted record) as a file, written so that
// they survive a power cut: a new file, fsync, rename, fsync of the directory.
//
// File: "CWDUR1\n", u32 little-endian payload length, 32 bytes SHA-256 of the payload, payload =
// causeway.wan.v1.Durable. Confined to one thread. Blocks for the fsync: epochs change rarely.
#ifndef CAUSEWAY_DAEMON_RUN_DURABLE_FILE_H_
#define CAUSEWAY_DAEMON_RUN_DURABLE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/engine/record.h"
#include "daemon/run/roster.h"

namespace causeway::run {

inline constexpr size_t kDurableBytesMax = 4 << 20;

class DurableFile {
 public:
  DurableFile(std::string directory, const std::string& run, const Roster& roster);

  // What was last written; a blank disk where there is no file. DATA_LOSS names a torn or foreign
  // file and what to do.
  absl::StatusOr<engine::Durable> Read() const;
  absl::Status Write(const engine::Durable& durable) const;
  // Forgets the run. Ok also where there was nothing.
  absl::Status Remove() const;

  const std::string& path() const { return path_; }

 private:
  const std::string directory_;
  const std::string path_;
  const Roster& roster_;
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_DURABLE_FILE_H_
