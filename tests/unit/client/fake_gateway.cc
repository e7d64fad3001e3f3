#include "tests/unit/client/fake_gateway.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace causeway::fake {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::abort();
}

}  // namespace

Memory::~Memory() {
  if (data != nullptr) munmap(data, size);
  if (descriptor >= 0) close(descriptor);
}

void Memory::Map(int given, uint64_t bytes) {
  descriptor = given;
  size = bytes;
  data = static_cast<uint8_t*>(mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0));
}

void Memory::Make(uint64_t bytes, bool sealed) {
  size = bytes;
  descriptor = memfd_create("fake-gateway", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Require(descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) == 0, "memfd");
  data = static_cast<uint8_t*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  Require(data != MAP_FAILED, "mmap");
  if (sealed) {
    Require(fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0, "seal");
  }
}

FakeGateway::FakeGateway(std::string directory, Options options)
    : directory_(std::move(directory)), options_(std::move(options)) {
  for (const std::string& name : options_.clusters) {
    Cluster cluster;
    cluster.name = name;
    cluster.path = directory_ + "/" + name + ".sock";
    clusters_.push_back(std::move(cluster));
  }
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  OpenListeners();
  thread_ = std::thread([this] { Run(); });
}

FakeGateway::~FakeGateway() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  Wake();
  thread_.join();
  Stop();
  close(wake_);
}

std::string FakeGateway::socket(size_t cluster) const { return clusters_[cluster].path; }

void FakeGateway::OpenListeners() {
  for (Cluster& cluster : clusters_) {
    unlink(cluster.path.c_str());
    cluster.listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    Require(cluster.path.size() < sizeof(address.sun_path), "path too long");
    std::memcpy(address.sun_path, cluster.path.data(), cluster.path.size());
    Require(bind(cluster.listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0,
            "bind");
    Require(listen(cluster.listener, 16) == 0, "listen");
  }
  listening_ = true;
}

void FakeGateway::Wake() {
  const uint64_t one = 1;
  Require(write(wake_, &one, sizeof(one)) == sizeof(one), "wake");
}

void FakeGateway::Run() {
  for (;;) {
    std::vector<pollfd> watched = {{wake_, POLLIN, 0}};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return;
      for (Cluster& cluster : clusters_) {
        watched.push_back({cluster.listener, POLLIN, 0});
        watched.push_back({cluster.connection, POLLIN, 0});
      }
    }
    poll(watched.data(), watched.size(), -1);
    uint64_t count;
    [[maybe_unused]] const ssize_t taken = read(wake_, &count, sizeof(count));
    for (size_t i = 0; i < clusters_.size(); ++i) {
      bool readable = false;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        Cluster& cluster = clusters_[i];
        if (cluster.listener >= 0 && watched[1 + 2 * i].revents != 0) Accept(cluster);
        readable = cluster.connection >= 0 && watched[2 + 2 * i].fd == cluster.connection &&
                   watched[2 + 2 * i].revents != 0;
      }
      if (readable) Read(i);
    }
  }
}

void FakeGateway::Accept(Cluster& cluster) {
  const int accepted = accept4(cluster.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (accepted < 0) return;
  if (cluster.connection >= 0) close(cluster.connection);
  cluster.connection = accepted;
  cluster.sequence = 0;
}

void FakeGateway::Read(size_t index) {
  std::vector<uint8_t> bytes(local::kMessageBytesMax);
  int descriptor = -1;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Cluster& cluster = clusters_[index];
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t received = recvmsg(cluster.connection, &message, MSG_CMSG_CLOEXEC);
    if (received < 0 && errno == EAGAIN) return;
    if (received <= 0) return Close(cluster);
    bytes.resize(static_cast<size_t>(received));
    if (const cmsghdr* head = CMSG_FIRSTHDR(&message);
        head != nullptr && head->cmsg_type == SCM_RIGHTS) {
      std::memcpy(&descriptor, CMSG_DATA(head), sizeof(int));
    }
  }
  Require(bytes.size() >= sizeof(local::Header), "message shorter than a header");
  local::Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  Received message{static_cast<local::Type>(header.type), std::move(bytes)};
  Hook hook;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    clusters_[index].log.push_back(message);
    hook = hook_;
  }
  const bool handled = hook && hook(index, message);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!handled) Handle(index, message, descriptor);
  if (descriptor >= 0) close(descriptor);
  changed_.notify_all();
}

local::Header FakeGateway::Head(Cluster& cluster, local::Type type, uint32_t size,
                                uint64_t answers) {
  local::Header header{};
  header.magic = local::kMagic;
  header.version = local::kVersionMax;
  header.type = static_cast<uint16_t>(type);
  header.size = size;
  header.sequence = ++cluster.sequence;
  header.answers = answers;
  return header;
}

void FakeGateway::Send(Cluster& cluster, const void* bytes, size_t size,
                       const std::vector<int>& descriptors) {
  if (cluster.connection < 0) return;
  iovec part{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size() * sizeof(int));
  }
  if (sendmsg(cluster.connection, &message, MSG_NOSIGNAL) < 0) Close(cluster);
}

void FakeGateway::Close(Cluster& cluster) {
  if (cluster.connection >= 0) {
    shutdown(cluster.connection, SHUT_RDWR);  // the gateway's thread may be polling it
    close(cluster.connection);
  }
  cluster.connection = -1;
}

}  // namespace causeway::fake
