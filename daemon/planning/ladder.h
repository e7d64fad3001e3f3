// The codecs that `codec: auto` goes up and down, least lossy first. Pure; any thread.
#ifndef CAUSEWAY_DAEMON_PLANNING_LADDER_H_
#define CAUSEWAY_DAEMON_PLANNING_LADDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compression/codec.h"

namespace causeway::planning {

// Names from least to most lossy: fp32, bf16, int8, int4, 2bit, sign, btopk.
std::vector<std::string> LadderNames();

// The rungs from `least` to `most` (names, both included). With error feedback every rung has it,
// fp32 too: what an earlier rung lost then leaves with the next contribution. Integer codes may be
// packed by the lossless stage, which others' codes do not repay. InvalidArgument when
// a name is not on the ladder or they are in the wrong order, naming the rungs.
absl::StatusOr<std::vector<compression::CodecSpec>> Ladder(absl::string_view least,
                                                           absl::string_view most,
                                                           bool error_feedback);

}  // namespace causeway::planning

#endif  // CAUSEWAY_DAEMON_PLANNING_LADDER_H_
