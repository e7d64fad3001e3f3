// Greeter: streams that peers opened, from their arrival to their hello.
//
// It proves who is calling, bounds how many callers may be undecided and for how long, and hands
// each stream to its Peer. What it refuses it refuses with a reason, to the peer and to the log.
// Poller thread only.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_GREETER_H_
#define CAUSEWAY_DAEMON_TRANSPORT_GREETER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "daemon/transport/byte_stream.h"
#include "daemon/transport/peer.h"
#include "daemon/transport/shared.h"
#include "daemon/transport/tunnel_relay.h"

namespace causeway::transport {

class Greeter final : public StreamAcceptor::Handler {
 public:
  using FindPeer = std::function<Peer*(const std::string& cluster)>;

  Greeter(Shared& shared, TunnelRelay& relay, FindPeer find_peer);
  ~Greeter();  // after Stop
  // Ends the streams whose hello has not come. With `draining` set, none follow.
  void Stop();

  void OnStream(ByteStream* stream, const std::string& method) override;

  uint64_t refused() const { return refused_; }
  int pending() const { return static_cast<int>(guests_.size()); }

 private:
  class Guest;

  void Refuse(ByteStream* stream, const std::string& cluster, const absl::Status& reason);
  void Hello(Guest& guest, const grpc::ByteBuffer& frame);
  absl::Status ControlHello(Guest& guest, const grpc::ByteBuffer& frame);
  absl::Status LaneHello(Guest& guest, const grpc::ByteBuffer& frame);
  absl::Status TunnelHello(Guest& guest, const grpc::ByteBuffer& frame);
  std::unique_ptr<Guest> Leave(Guest& guest);

  Shared& shared_;
  TunnelRelay& relay_;
  const FindPeer find_peer_;
  uint64_t refused_ = 0;
  std::unordered_map<Guest*, std::unique_ptr<Guest>> guests_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_GREETER_H_
