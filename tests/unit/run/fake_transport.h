// A transport that keeps what it is given and delivers nothing.
#ifndef CAUSEWAY_TESTS_UNIT_RUN_FAKE_TRANSPORT_H_
#define CAUSEWAY_TESTS_UNIT_RUN_FAKE_TRANSPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "daemon/transport/transport.h"

namespace causeway::testing {

// `answer` is what SendChunk says.
class FakeTransport final : public transport::Transport {
 public:
  absl::Status Start() override { return absl::OkStatus(); }
  void Drain(absl::Duration) override {}
  void Stop() override {}
  absl::Status SendRunMessage(const std::string&, const wan::v1::RunMessage& message) override {
    messages.push_back(message);
    return absl::OkStatus();
  }
  absl::Status SendChunk(const std::string&, const transport::ChunkHeader& header,
                         memory::SharedBuffer, uint64_t priority) override {
    if (answer.ok()) {
      sent.push_back(header);
      priorities.push_back(priority);
    }
    return answer;
  }
  void CancelChunks(const std::string&,
                    std::function<bool(const transport::ChunkHeader&)> matches) override {
    for (const transport::ChunkHeader& header : sent) cancelled += matches(header) ? 1 : 0;
  }
  absl::Status SetWindow(const std::string&, const std::string&, uint64_t) override {
    return absl::OkStatus();
  }
  void ReturnCredit(const std::string&, const std::string&, uint64_t) override {}
  void Disconnect(const std::string&, const absl::Status&, absl::Duration) override {}
  transport::TransportStatus Status() override { return {}; }
  std::vector<transport::PeerRates> Rates() override { return {}; }
  int port() const override { return 0; }

  absl::Status answer;
  std::vector<transport::ChunkHeader> sent;
  std::vector<uint64_t> priorities;
  std::vector<wan::v1::RunMessage> messages;
  int cancelled = 0;
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_RUN_FAKE_TRANSPORT_H_
