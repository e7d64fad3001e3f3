// The number of a gateway's process: ascends over restarts, also when the clock was set back
// between them. Peers take a lower one for the ghost of an earlier process.
//
// Kept as a decimal number in <state_directory>/incarnation. Call once, at the start; blocks for
// the fsync.
#ifndef CAUSEWAY_DAEMON_RUN_INCARNATION_H_
#define CAUSEWAY_DAEMON_RUN_INCARNATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace causeway::run {

// Lives of one process: each run that it forgets begins another, one number higher.
inline constexpr uint64_t kLivesMax = 1 << 20;

// The clock's reading (nanoseconds), or kLivesMax more than the number before where that is not
// less; on disk before it returns. An error names the file: without it a lower number might come
// again. Where the disk only refuses to be written and the clock is ahead of what it holds, the
// number is safe all the same.
absl::StatusOr<uint64_t> NextIncarnation(const std::string& state_directory, uint64_t clock);

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_INCARNATION_H_
