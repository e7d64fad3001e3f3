// The socket to the gateway: sends and receives whole datagrams with descriptors, never blocking.
//
// Knows nothing of what messages mean. Confined to its owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "client/shim/datagram.h"
#include "client/shim/descriptor.h"
#include "client/shim/failure.h"

namespace causeway::client {

class Connection {
 public:
  enum class Receipt { kMessage, kNothing, kClosed, kMalformed };

  // Connects to a SOCK_SEQPACKET socket. GATEWAY_LOST with the remedy where nobody listens.
  Status Connect(const std::string& path);
  void Close() { socket_.Reset(); }
  bool open() const { return static_cast<bool>(socket_); }
  int descriptor() const { return socket_.get(); }
  // The other side's process; 0 where it cannot be named here.
  uint32_t PeerPid() const;

  // Sends one datagram, with `attached` beside it unless negative. False: the gateway is gone or
  // does not read; the connection is closed.
  bool Send(const void* bytes, size_t size, int attached);

  // Receives one datagram if there is one. kMalformed: too long, or its descriptors were cut off.
  Receipt Receive(Datagram& datagram);

 private:
  Descriptor socket_;
};

}  // namespace causeway::client
