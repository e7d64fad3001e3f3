// What `gpu:` in the configuration comes to on this machine. One thread.
#ifndef CAUSEWAY_DAEMON_GPU_CHOICE_H_
#define CAUSEWAY_DAEMON_GPU_CHOICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/gpu/gpu_codec.h"

namespace causeway::gpu {

enum class Use {
  kAuto,      // where there is a usable one
  kRequired,  // or the daemon does not start
  kOff,
};

struct Choice {
  std::shared_ptr<GpuCodec> codec;  // shared with endpoints; null: the CPU does everything
  std::string text;                 // a sentence for the log
};

using Opener = std::function<absl::StatusOr<std::shared_ptr<GpuCodec>>()>;

// FAILED_PRECONDITION when one is required and `open` finds none, with its reason. `codecs` are the
// runs': those that a GPU leaves to the CPU are named.
absl::StatusOr<Choice> Choose(Use use, const std::vector<compression::CodecSpec>& codecs,
                              const Opener& open);

}  // namespace causeway::gpu

#endif  // CAUSEWAY_DAEMON_GPU_CHOICE_H_
