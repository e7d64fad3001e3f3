// RawPeer: a gRPC client that sends a gateway whatever bytes a test likes, as a hostile peer would.
// Blocking, one operation at a time, each bounded by kPatience.
#ifndef CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_RAW_PEER_H_
#define CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_RAW_PEER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "daemon/transport/chunk.h"

namespace causeway::transport {

class RawPeer {
 public:
  RawPeer(const std::string& address, const std::string& method);
  ~RawPeer();

  bool connected() const;
  bool Write(const std::string& frame);  // false when the stream is over
  std::optional<std::string> Read();     // nothing when the stream is over
  absl::Status Finish();                 // waits for the end and says why

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A valid hello of cluster paris for `link`.
std::string HelloFrame(uint64_t link, uint64_t incarnation = 7,
                       const std::string& cluster = "paris");
// Reads control frames until the gateway granted credit to `run`; what it granted.
uint64_t ReadCredit(RawPeer& control, const std::string& run);
ChunkHeader RawHeader(const std::string& run);

}  // namespace causeway::transport

#endif  // CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_RAW_PEER_H_
