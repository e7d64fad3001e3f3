// The emulator's control socket: a unix stream socket, one command a line, one line of JSON as the
// answer.
//
// Bounded: kConnectionsMax clients, kLineBytesMax a line; a client beyond that is closed. Answers
// go to a client that reads; one that does not is closed when its socket is full. Confined to one
// thread.
#ifndef CAUSEWAY_TESTS_WAN_EMULATOR_CONTROL_SERVER_H_
#define CAUSEWAY_TESTS_WAN_EMULATOR_CONTROL_SERVER_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace causeway::wan_emulator {

class ControlServer {
 public:
  static constexpr size_t kConnectionsMax = 16;
  static constexpr size_t kLineBytesMax = 1024;
  using Handler = std::function<std::string(std::string_view line)>;

  ControlServer() = default;
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  ~ControlServer();  // removes the socket's file

  // Listens at `path` and registers with the epoll instance. Events carry the descriptor in
  // data.fd.
  absl::Status Listen(const std::string& path, int epoll);
  // Whether `descriptor` is one of this server's; if so, serves what waits there.
  bool Serve(int descriptor, const Handler& handler);

 private:
  void Accept();
  void ReadFrom(int descriptor, const Handler& handler);
  void Close(int descriptor);

  std::string path_;
  int epoll_ = -1;
  int listener_ = -1;
  std::map<int, std::string> connections_;  // descriptor -> the unfinished line
};

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_WAN_EMULATOR_CONTROL_SERVER_H_
