// FakeRelay: cluster oslo, with its real certificate, relaying as a gateway does, but reading along
// and changing what it is told to. Its own links are good for nothing else.
#ifndef CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_FAKE_RELAY_H_
#define CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_FAKE_RELAY_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "daemon/transport/byte_stream.h"
#include "daemon/transport/poller.h"

namespace causeway::transport {

class FakeRelay final : public StreamAcceptor::Handler {
 public:
  explicit FakeRelay(std::shared_ptr<grpc::ServerCredentials> credentials);
  ~FakeRelay();

  std::string address() const;
  // From now on one byte of every data frame longer than `bytes` is changed; 0: of none.
  void Tamper(size_t bytes) { tamper_above_ = bytes; }
  std::string Seen();  // everything that passed, in both directions

 private:
  class Caller;

  void OnStream(ByteStream* stream, const std::string& method) override;

  StreamSet streams_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<StreamAcceptor> acceptor_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> tamper_above_{0};
  std::vector<std::unique_ptr<Caller>> callers_;  // poller thread
  std::map<std::string, Caller*> controls_;       // by cluster
  std::map<uint64_t, Caller*> opened_;            // tunnels that wait for their other end
  uint64_t next_tunnel_ = 1;
  absl::Mutex mutex_;
  std::string seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_FAKE_RELAY_H_
