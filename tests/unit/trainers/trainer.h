// A trainer made of plain system calls, for tests of the service: sends and receives raw messages.
#ifndef CAUSEWAY_TESTS_UNIT_TRAINERS_TRAINER_H_
#define CAUSEWAY_TESTS_UNIT_TRAINERS_TRAINER_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "daemon/loop/descriptor.h"
#include "proto/local_protocol.h"

namespace causeway::testing {

inline constexpr int kPatienceMs = 20'000;  // a test that waits longer fails

inline sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// A memfd with this content.
inline loop::Descriptor Memfd(absl::Span<const uint8_t> bytes) {
  loop::Descriptor memfd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(memfd.valid());
  REQUIRE(write(memfd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  return memfd;
}

template <typename Message>
Message Make(local::Type type) {
  Message message{};
  message.header.magic = local::kMagic;
  message.header.version = 1;
  message.header.type = static_cast<uint16_t>(type);
  message.header.size = sizeof(Message);
  return message;
}

inline local::Hello MakeHello(uint32_t rank = 0, const std::string& run = "demo") {
  auto hello = Make<local::Hello>(local::Type::kHello);
  hello.version_min = 1;
  hello.version_max = 1;
  hello.rank = rank;
  hello.world = 8;
  std::memcpy(hello.run, run.data(), run.size());
  return hello;
}

class Trainer {
 public:
  enum class Connected { kYes, kNo };

  explicit Trainer(const std::string& path, Connected connected = Connected::kYes)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    REQUIRE(socket_.valid());
    if (connected == Connected::kYes) REQUIRE(Connect(path));
  }

  bool Connect(const std::string& path) {
    const sockaddr_un address = AddressOf(path);
    return connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
           0;
  }

  int socket() const { return socket_.get(); }
  void Close() { socket_.Reset(); }

  // False: the other side is gone, or (with MSG_DONTWAIT) does not read.
  bool SendBytes(absl::Span<const uint8_t> bytes, const std::vector<int>& descriptors = {},
                 int flags = 0) {
    iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size() * sizeof(int));
    }
    return sendmsg(socket_.get(), &message, MSG_NOSIGNAL | flags) ==
           static_cast<ssize_t>(bytes.size());
  }

  // Numbers the message and sends it; returns its number.
  template <typename Message>
  uint64_t Send(Message message, const std::vector<int>& descriptors = {}) {
    message.header.sequence = ++sequence_;
    REQUIRE(SendBytes({reinterpret_cast<const uint8_t*>(&message), sizeof(message)}, descriptors));
    return sequence_;
  }

  // The next datagram; empty when the other side has closed. Descriptors beside it are kept.
  std::vector<uint8_t> ReceiveBytes() {
    pollfd entry{socket_.get(), POLLIN, 0};
    REQUIRE(poll(&entry, 1, kPatienceMs) == 1);
    std::vector<uint8_t> bytes(2 * local::kMessageBytesMax);
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t size = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    received.clear();
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int number;
        std::memcpy(&number, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
        received.emplace_back(number);
      }
    }
    bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return bytes;
  }

  template <typename Message>
  Message Receive(local::Type type) {
    const std::vector<uint8_t> bytes = ReceiveBytes();
    REQUIRE(bytes.size() >= sizeof(local::Header));
    local::Header header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.type == static_cast<uint16_t>(local::Type::kError) && type != local::Type::kError) {
      local::Error error;
      std::memcpy(&error, bytes.data(), sizeof(error));
      FAIL("error " << error.code << ": " << error.text);
    }
    REQUIRE(header.type == static_cast<uint16_t>(type));
    REQUIRE(header.magic == local::kMagic);
    REQUIRE(header.zero == 0);
    REQUIRE(header.size == bytes.size());
    REQUIRE(bytes.size() == sizeof(Message));
    CHECK(header.sequence == ++their_sequence_);
    Message message;
    std::memcpy(&message, bytes.data(), sizeof(message));
    return message;
  }

  local::Error ReceiveError(local::Code code) {
    const auto error = Receive<local::Error>(local::Type::kError);
    INFO(error.text);
    CHECK(error.code == static_cast<uint16_t>(code));
    CHECK(std::string(error.text) != "");
    return error;
  }

  bool Closed() { return ReceiveBytes().empty(); }

  local::Welcome SayHello(const local::Hello& hello) {
    const uint64_t sequence = Send(hello);
    const auto welcome = Receive<local::Welcome>(local::Type::kWelcome);
    CHECK(welcome.header.answers == sequence);
    return welcome;
  }

  std::vector<loop::Descriptor> received;

 private:
  loop::Descriptor socket_;
  uint64_t sequence_ = 0;
  uint64_t their_sequence_ = 0;
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_TRAINERS_TRAINER_H_
