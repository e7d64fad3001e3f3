// TunnelEnd: one connection of ours that leads through a relay: bytes between a local socket, where
// gRPC speaks TLS with the peer at the far end, and a Tunnel stream to the relay.
//
// It understands none of the bytes. In each direction it holds one piece, and reads no more until
// that is handed on, so a slow side slows the other. Poller thread only.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_END_H_
#define CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_END_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/transport/byte_stream.h"
#include "daemon/transport/socket_waiter.h"
#include "daemon/transport/tunnel_frame.h"

namespace causeway::transport {

class TunnelEnd final : public ByteStream::Handler {
 public:
  // Called once, when it is over; the receiver buries it.
  using Ended = std::function<void(TunnelEnd* end, const absl::Status& reason)>;

  // Owns `descriptor`, a connected stream socket that does not block.
  TunnelEnd(SocketWaiter& waiter, int descriptor, TunnelHelloFrame hello, Ended ended);
  ~TunnelEnd();
  // `stream` is being dialled and must be open by `deadline`.
  void Begin(ByteStream* stream, absl::Time deadline);
  void Stop();  // without a call to `ended`

  void OnOpen() override;
  void OnRead(const grpc::ByteBuffer& frame) override;
  void OnWritten() override;
  void OnClosed(const absl::Status& reason) override;

 private:
  void OnSocket(uint32_t epoll_events);
  void ArmSocket();
  void ReadSocket();
  void WriteSocket();
  void End(const absl::Status& reason);

  SocketWaiter& waiter_;
  int descriptor_;
  const TunnelHelloFrame hello_;
  const Ended ended_;
  uint64_t watch_ = 0;
  ByteStream* stream_ = nullptr;
  bool over_ = false;
  TunnelData incoming_;    // to the socket; empty: nothing waits
  size_t next_slice_ = 0;  // of `incoming_`
  size_t slice_offset_ = 0;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_END_H_
