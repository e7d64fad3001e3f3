// Bytes both ways between every two clusters over plain TCP, striped equally over connections: what
// the line gives without anybody's protocol.
//   bench_exchange_tcp RANK BYTES STREAMS PORT ADDRESS...     one address for each rank
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/bench/exchange_peers/rounds.h"

namespace {

constexpr size_t kBlock = 1 << 20;

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in AddressOf(const char* text, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, text, &address.sin_addr) != 1) Fail(text);
  return address;
}

void WriteAll(int socket, size_t bytes) {
  const std::vector<char> block(kBlock, 'x');
  while (bytes > 0) {
    const ssize_t sent = send(socket, block.data(), std::min(bytes, block.size()), MSG_NOSIGNAL);
    if (sent <= 0) Fail("send");
    bytes -= static_cast<size_t>(sent);
  }
}

void ReadAll(int socket, size_t bytes) {
  std::vector<char> block(kBlock);
  while (bytes > 0) {
    const ssize_t got = recv(socket, block.data(), std::min(bytes, block.size()), 0);
    if (got <= 0) Fail("recv");
    bytes -= static_cast<size_t>(got);
  }
}

// The higher rank dials. One connection for each stream of each peer.
std::vector<int> Connect(int rank, int streams, int port,
                         const std::vector<const char*>& addresses) {
  std::vector<int> sockets;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const sockaddr_in own = AddressOf(addresses[static_cast<size_t>(rank)], port);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0) Fail("bind");
  if (listen(listener, 256) != 0) Fail("listen");
  for (int peer = 0; peer < rank; ++peer) {
    for (int i = 0; i < streams; ++i) {
      const sockaddr_in address = AddressOf(addresses[static_cast<size_t>(peer)], port);
      for (int tries = 0;; ++tries) {
        const int made = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
          sockets.push_back(made);
          break;
        }
        close(made);
        if (tries == 100) Fail("connect");
        usleep(100'000);
      }
    }
  }
  const int accepted = (static_cast<int>(addresses.size()) - 1 - rank) * streams;
  for (int i = 0; i < accepted; ++i) {
    const int made = accept(listener, nullptr, nullptr);
    if (made < 0) Fail("accept");
    sockets.push_back(made);
  }
  close(listener);
  return sockets;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fputs("bench_exchange_tcp RANK BYTES STREAMS PORT ADDRESS ADDRESS...\n", stderr);
    return 64;
  }
  const size_t bytes = std::strtoull(argv[2], nullptr, 10);
  const int streams = std::max(1, std::atoi(argv[3]));
  const std::vector<int> sockets = Connect(std::atoi(argv[1]), streams, std::atoi(argv[4]),
                                           std::vector<const char*>(argv + 5, argv + argc));
  const size_t part = bytes / static_cast<size_t>(streams) + 1;
  causeway::bench::Serve([&] {
    std::vector<std::thread> threads;
    for (int socket : sockets) {
      threads.emplace_back([socket, part] { WriteAll(socket, part); });
      threads.emplace_back([socket, part] { ReadAll(socket, part); });
    }
    for (std::thread& thread : threads) thread.join();
    return uint64_t{0};
  });
  return 0;
}
