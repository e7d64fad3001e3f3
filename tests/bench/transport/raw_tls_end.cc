#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "absl/strings/numbers.h"
#include "tests/bench/transport/bench_end.h"

namespace causeway::bench {
namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr int kAttempts = 200;

// "10.0.0.1:7443"
sockaddr_in Address(const std::string& text) {
  sockaddr_in address{};
  const size_t colon = text.rfind(':');
  int port = 0;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &port)) port = 0;
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr);
  return address;
}

class RawTlsEnd final : public BenchEnd {
 public:
  explicit RawTlsEnd(const Options& options) : options_(options) {}
  ~RawTlsEnd() override {
    stop_ = true;
    sending_ = false;
    for (int descriptor : sockets_) shutdown(descriptor, SHUT_RDWR);
    if (listener_ >= 0) shutdown(listener_, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Open() {
    std::signal(SIGPIPE, SIG_IGN);
    context_ = SSL_CTX_new(TLS_method());
    SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
    if (SSL_CTX_use_certificate_chain_file(context_, (options_.pki + "/gateway.pem").c_str()) !=
            1 ||
        SSL_CTX_use_PrivateKey_file(context_, (options_.pki + "/gateway.key").c_str(),
                                    SSL_FILETYPE_PEM) != 1) {
      return absl::FailedPreconditionError("certificate or key cannot be read: " + options_.pki);
    }
    const sockaddr_in address = Address(options_.listen.empty() ? options_.dial : options_.listen);
    if (!options_.listen.empty()) {
      listener_ = socket(AF_INET, SOCK_STREAM, 0);
      const int on = 1;
      setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
      if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
          listen(listener_, options_.lanes) != 0) {
        return absl::ErrnoToStatus(errno, "listen");
      }
    }
    sockets_.assign(static_cast<size_t>(options_.lanes), -1);
    for (int i = 0; i < options_.lanes; ++i) {
      threads_.emplace_back([this, i, address] { Serve(i, address); });
    }
    return absl::OkStatus();
  }

  bool Up() override { return up_ == options_.lanes; }
  void StartSending() override { sending_ = true; }
  void StopSending() override { sending_ = false; }
  Counts Count() override {
    Counts counts;
    counts.bytes_received = received_;
    counts.lanes_up = static_cast<uint64_t>(up_);
    return counts;
  }
  absl::Duration Send(uint64_t) override { return absl::InfiniteDuration(); }  // nothing is counted
  std::vector<absl::Duration> Ping(int) override { return {}; }

 private:
  int Connect(const sockaddr_in& address) {
    if (listener_ >= 0) return accept(listener_, nullptr, nullptr);
    for (int attempt = 0; attempt < kAttempts && !stop_; ++attempt) {
      const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
        return descriptor;
      }
      close(descriptor);
      absl::SleepFor(absl::Milliseconds(20));
    }
    return -1;
  }

  // One connection: the listening end reads, the dialling one writes while it is told to.
  void Serve(int index, const sockaddr_in& address) {
    const int descriptor = Connect(address);
    if (descriptor < 0) return;
    sockets_[static_cast<size_t>(index)] = descriptor;
    const int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    SSL* ssl = SSL_new(context_);
    SSL_set_fd(ssl, descriptor);
    if ((listener_ >= 0 ? SSL_accept(ssl) : SSL_connect(ssl)) == 1) {
      ++up_;
      Move(ssl);
      --up_;
    }
    SSL_free(ssl);
    close(descriptor);
  }

  void Move(SSL* ssl) {
    std::vector<char> piece(kPieceBytes, 0x5a);
    while (!stop_) {
      if (listener_ >= 0) {
        const int size = SSL_read(ssl, piece.data(), static_cast<int>(piece.size()));
        if (size <= 0) return;
        received_ += static_cast<uint64_t>(size);
      } else if (!sending_) {
        absl::SleepFor(absl::Milliseconds(1));
      } else if (SSL_write(ssl, piece.data(), static_cast<int>(piece.size())) <= 0) {
        return;
      }
    }
  }

  const Options options_;
  SSL_CTX* context_ = nullptr;
  int listener_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<bool> sending_{false};
  std::atomic<int> up_{0};
  std::atomic<uint64_t> received_{0};
  std::vector<int> sockets_;  // each written by its own thread
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BenchEnd>> MakeRawTlsEnd(const Options& options) {
  auto end = std::make_unique<RawTlsEnd>(options);
  if (absl::Status opened = end->Open(); !opened.ok()) return opened;
  return std::unique_ptr<BenchEnd>(std::move(end));
}

}  // namespace causeway::bench
