// The unix seqpacket socket at its lowest: listening at a path, who is at the other end, one
// datagram in, one datagram out. No state, no policy; any thread. Never blocks.
#ifndef CAUSEWAY_DAEMON_TRAINERS_SOCKET_H_
#define CAUSEWAY_DAEMON_TRAINERS_SOCKET_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/loop/descriptor.h"
#include "proto/local_protocol.h"

namespace causeway::trainers {

inline constexpr size_t kDescriptorsMax = 8;  // received beside one datagram; more is an error

// Listens at `path` with that mode and group from the first moment on (no window with wider
// access). A stale socket, at which nobody answers, is replaced. Errors as TrainerService::Create
// says.
absl::StatusOr<loop::Descriptor> ListenAt(const std::string& path, const std::string& group,
                                          uint32_t mode);

// Which file a socket path names, to remove only what is ours.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};
absl::StatusOr<FileId> IdentifyFile(const std::string& path);

struct Peer {
  pid_t pid = 0;  // 0: not visible from this PID namespace
  uid_t uid = 0;
  loop::Descriptor process;  // a pidfd: readable once it is dead; invalid: cannot be had
};
absl::StatusOr<Peer> IdentifyPeer(int socket);
bool ProcessIsDead(int process_descriptor);

struct Datagram {
  std::vector<uint8_t> bytes;
  std::vector<loop::Descriptor> descriptors;
  bool truncated = false;  // longer than kMessageBytesMax, or more descriptors than kDescriptorsMax
};
enum class Transfer { kDone, kWouldBlock, kClosed };
Transfer Receive(int socket, Datagram& datagram);
Transfer Send(int socket, absl::Span<const uint8_t> bytes, absl::Span<const int> descriptors);

// A sealed, read-only memfd holding `bytes`.
absl::StatusOr<loop::Descriptor> SealedCopy(const std::string& name,
                                            absl::Span<const uint8_t> bytes);

// The content of a memfd that a trainer sent, which must have exactly `size` bytes (checked before
// any allocation). InvalidArgument for anything that is no memfd: a descriptor of another kind
// could block its reader.
absl::StatusOr<std::vector<uint8_t>> ReadMemfd(int descriptor, uint64_t size);

}  // namespace causeway::trainers

#endif  // CAUSEWAY_DAEMON_TRAINERS_SOCKET_H_
