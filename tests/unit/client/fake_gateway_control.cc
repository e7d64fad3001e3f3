// What tests do to the fake gateway, and what they ask it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/unit/client/fake_gateway.h"

namespace causeway::fake {

using Guard = std::lock_guard<std::mutex>;

void FakeGateway::SetHold(bool hold) {
  const Guard guard(mutex_);
  options_.hold = hold;
}

void FakeGateway::Release() {
  const Guard guard(mutex_);
  CommitComplete();
}

void FakeGateway::Disconnect(size_t cluster) {
  const Guard guard(mutex_);
  Close(clusters_[cluster]);
}

void FakeGateway::Stop() {
  const Guard guard(mutex_);
  for (Cluster& cluster : clusters_) {
    Close(cluster);
    if (cluster.listener >= 0) close(cluster.listener);
    cluster.listener = -1;
    unlink(cluster.path.c_str());
  }
  listening_ = false;
  Wake();
}

void FakeGateway::Start(bool remember) {
  const Guard guard(mutex_);
  ++incarnation_;
  for (Cluster& cluster : clusters_) {
    cluster.joined = cluster.offered = cluster.ready = false;
    // A restarted gateway keeps what it committed, not who was connected.
    cluster.token.fill(0xff);
    if (!remember) cluster.ended.clear();
    cluster.open.clear();
  }
  OpenListeners();
  Wake();
}

void FakeGateway::SetValues(uint32_t fragment, int64_t round, std::vector<float> values) {
  const Guard guard(mutex_);
  values.resize(fragments_[fragment].record.elements, 0.0f);
  fragments_[fragment].values = std::move(values);
  fragments_[fragment].round = round;
}

void FakeGateway::SetOptions(const std::function<void(Options&)>& change) {
  const Guard guard(mutex_);
  change(options_);
}

void FakeGateway::Exclude(uint32_t fragment, std::vector<float> values, size_t cluster) {
  const Guard guard(mutex_);
  Fragment& known = fragments_[fragment];
  values.resize(known.record.elements, 0.0f);
  known.values = std::move(values);
  known.round += 1;
  Cluster& mine = clusters_[cluster];
  const Submission submission = mine.open.at(fragment);
  mine.open.erase(fragment);
  WriteValue(mine, fragment);
  Deliver(mine, fragment, submission, local::State::kExcluded);
}

void FakeGateway::SendState(uint64_t op, local::State state, const std::string& awaited,
                            size_t cluster) {
  const Guard guard(mutex_);
  local::OpState message{};
  message.header = Head(clusters_[cluster], local::Type::kOpState, sizeof(message), 0);
  message.op = op;
  message.state = static_cast<uint8_t>(state);
  message.round = 1;
  message.in_doubt = 1;
  awaited.copy(message.awaited, sizeof(message.awaited) - 1);
  Send(clusters_[cluster], &message, sizeof(message));
}

void FakeGateway::SendFailed(uint64_t op, local::Code code, size_t cluster) {
  const Guard guard(mutex_);
  local::OpState message{};
  message.header = Head(clusters_[cluster], local::Type::kOpState, sizeof(message), 0);
  message.op = op;
  message.state = static_cast<uint8_t>(local::State::kFailed);
  message.code = static_cast<uint16_t>(code);
  message.round = 1;
  clusters_[cluster].open.clear();
  Send(clusters_[cluster], &message, sizeof(message));
}

void FakeGateway::SendError(uint64_t answers, local::Code code, bool retryable, bool fatal,
                            const std::string& tensor, const std::string& text, size_t cluster) {
  const Guard guard(mutex_);
  local::Error error{};
  error.header = Head(clusters_[cluster], local::Type::kError, sizeof(error), answers);
  error.code = static_cast<uint16_t>(code);
  error.retryable = retryable ? 1 : 0;
  error.fatal = fatal ? 1 : 0;
  error.rank = 0;
  error.round = 7;
  std::strcpy(error.cluster, "tokyo");
  tensor.copy(error.tensor, sizeof(error.tensor) - 1);
  text.copy(error.text, sizeof(error.text) - 1);
  Send(clusters_[cluster], &error, sizeof(error));
}

void FakeGateway::SendBytes(const void* bytes, size_t size, const std::vector<int>& descriptors,
                            size_t cluster) {
  const Guard guard(mutex_);
  Send(clusters_[cluster], bytes, size, descriptors);
}

void FakeGateway::SetHook(Hook hook) {
  const Guard guard(mutex_);
  hook_ = std::move(hook);
}

std::vector<Received> FakeGateway::Log(size_t cluster) const {
  const Guard guard(mutex_);
  return clusters_[cluster].log;
}

size_t FakeGateway::Count(local::Type type, size_t cluster) const {
  const Guard guard(mutex_);
  const auto& log = clusters_[cluster].log;
  return static_cast<size_t>(
      std::count_if(log.begin(), log.end(), [type](const Received& m) { return m.type == type; }));
}

bool FakeGateway::WaitCount(local::Type type, size_t count, size_t cluster) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [&] {
    const auto& log = clusters_[cluster].log;
    return static_cast<size_t>(std::count_if(log.begin(), log.end(), [type](const Received& m) {
             return m.type == type;
           })) >= count;
  });
}

std::vector<float> FakeGateway::Values(uint32_t fragment) const {
  const Guard guard(mutex_);
  return fragments_[fragment].values;
}

int64_t FakeGateway::Round(uint32_t fragment) const {
  const Guard guard(mutex_);
  return fragments_[fragment].round;
}

std::vector<uint8_t> FakeGateway::Snapshot(uint32_t fragment, size_t cluster) const {
  const Guard guard(mutex_);
  const auto& record = fragments_[fragment].record;
  const uint8_t* begin = clusters_[cluster].snapshot->data + record.snapshot_offset;
  return std::vector<uint8_t>(begin, begin + record.elements * (record.dtype == 0 ? 4 : 2));
}

}  // namespace causeway::fake
