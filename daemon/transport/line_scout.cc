// Rejected: whole connections with TLS as questions, since gRPC cannot give up one that is being
// made; and TCP_RTO_MAX_MS (kernels from 6.15), which lets connections repeat every second: those
// that resume so take seconds to fill the line again, a fresh one half a second.
#include "daemon/transport/line_scout.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"

namespace causeway::transport {
namespace {

constexpr char kV4[] = "ipv4:";
constexpr char kV6[] = "ipv6:";

// A reset: nothing lingers of it at either end.
void Close(int descriptor) {
  const linger reset{1, 0};
  setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  close(descriptor);
}

// Neither still asking nor refused.
bool Connected(int descriptor) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  return getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0;
}

// The length of what it wrote; 0: not an internet address.
socklen_t Parse(const std::string& remote, sockaddr_storage* out) {
  const size_t colon = remote.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(remote.substr(colon + 1), &port) ||
      port == 0 || port > 65535) {
    return 0;
  }
  if (remote.rfind(kV4, 0) == 0) {
    const size_t begin = sizeof(kV4) - 1;
    auto& v4 = reinterpret_cast<sockaddr_in&>(*out);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(port));
    if (colon < begin) return 0;
    const std::string host = remote.substr(begin, colon - begin);
    return inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1 ? sizeof(v4) : 0;
  }
  if (remote.rfind(kV6, 0) != 0) return 0;
  const size_t begin = sizeof(kV6) - 1;
  if (colon < begin) return 0;
  const std::string host = absl::StrReplaceAll(remote.substr(begin, colon - begin),
                                               {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  auto& v6 = reinterpret_cast<sockaddr_in6&>(*out);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  return inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1 ? sizeof(v6) : 0;
}

}  // namespace

std::unique_ptr<LineScout> LineScout::To(const std::string& remote) {
  std::unique_ptr<LineScout> scout(new LineScout);
  scout->address_bytes_ = Parse(remote, &scout->address_);
  return scout->address_bytes_ == 0 ? nullptr : std::move(scout);
}

LineScout::~LineScout() {
  for (int question : questions_) Close(question);
}

bool LineScout::Answered(absl::Time now) {
  for (int question : questions_) {
    if (Connected(question)) return true;
  }
  if (now < ask_at_) return false;
  ask_at_ = now + kPace;
  Ask();
  return false;
}

void LineScout::Ask() {
  if (questions_.size() == kQuestionsMax) {
    Close(questions_.front());
    questions_.pop_front();
  }
  const int descriptor = socket(address_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;  // none left: TCP will repeat in its own time
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address_), address_bytes_) != 0 &&
      errno != EINPROGRESS) {
    Close(descriptor);  // no route at the moment
    return;
  }
  questions_.push_back(descriptor);
}

}  // namespace causeway::transport
