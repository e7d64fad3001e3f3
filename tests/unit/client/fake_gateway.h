// A gateway for the shim's tests: a real peer of local_protocol.h that averages a few clusters in
// one process.
//
// Speaks the protocol from its bytes over real sockets with real memfds, one thread, one socket a
// cluster; there is no network, codec or commit protocol behind it. Tests drive it: hold results
// back, exclude, stall, fail, cut connections, restart without memory, answer with arbitrary bytes.
// Every public method is safe from the test's thread. Fixed rule: average (theta - sum w_i (theta -
// snapshot_i) / W), or the weighted mean of gradients.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proto/local_protocol.h"

namespace causeway::fake {

// A memfd of the gateway, mapped here.
struct Memory {
  Memory() = default;
  Memory(const Memory&) = delete;
  ~Memory();
  void Make(uint64_t bytes, bool sealed);
  void Map(int given, uint64_t bytes);  // somebody else's; takes the descriptor
  int descriptor = -1;
  uint8_t* data = nullptr;
  uint64_t size = 0;
};

struct Options {
  std::vector<std::string> clusters = {"paris"};
  uint32_t fragments = 1;  // of parameters; each other dtype or group gets one of its own
  uint32_t local_steps = 4;
  uint32_t delay_steps = 0;
  local::ApplyMode apply_mode = local::ApplyMode::kCarry;
  float mix = 0;
  uint64_t wait_timeout_ms = 0;
  bool hold = false;            // results wait for Release
  bool sealed = true;           // memfds are, as they must be
  bool silent = false;          // Hello gets no answer
  bool share = false;           // takes device memory that trainers share
  bool keep_sessions = true;    // a token is recognised after a lost connection
  uint64_t exchange_us = 1000;  // told in results
};

// The bytes of one received message.
struct Received {
  local::Type type;
  std::vector<uint8_t> bytes;
  template <typename T>
  T As() const {
    T message{};
    __builtin_memcpy(&message, bytes.data(), std::min(sizeof(T), bytes.size()));
    return message;
  }
};

class FakeGateway {
 public:
  explicit FakeGateway(std::string directory, Options options = {});
  ~FakeGateway();

  std::string socket(size_t cluster = 0) const;
  void SetHold(bool hold);
  void Release();  // lets every complete round commit that was held back

  // What a test does to it.
  void Disconnect(size_t cluster = 0);
  void Stop();  // closes sockets and connections; keeps the values
  void Start(
      bool remember = true);  // listens again under a new incarnation; false: forgets operations
  void SetValues(uint32_t fragment, int64_t round, std::vector<float> values);  // while stopped
  void SetOptions(const std::function<void(Options&)>& change);
  void Exclude(uint32_t fragment, std::vector<float> values, size_t cluster = 0);
  void SendState(uint64_t op, local::State state, const std::string& awaited, size_t cluster = 0);
  void SendFailed(uint64_t op, local::Code code, size_t cluster = 0);
  void SendError(uint64_t answers, local::Code code, bool retryable, bool fatal,
                 const std::string& tensor, const std::string& text, size_t cluster = 0);
  void SendBytes(const void* bytes, size_t size, const std::vector<int>& descriptors = {},
                 size_t cluster = 0);
  // Sees each message first; true: it dealt with it. Runs on the gateway's thread, without its
  // lock.
  using Hook = std::function<bool(size_t cluster, const Received& message)>;
  void SetHook(Hook hook);

  // What it saw.
  std::vector<Received> Log(size_t cluster = 0) const;
  size_t Count(local::Type type, size_t cluster = 0) const;
  bool WaitCount(local::Type type, size_t count, size_t cluster = 0);  // false after 20 s
  std::vector<float> Values(uint32_t fragment) const;
  int64_t Round(uint32_t fragment) const;
  // A copy of the snapshot's bytes of a fragment, and the descriptors a hostile trainer would try
  // to harm.
  std::vector<uint8_t> Snapshot(uint32_t fragment, size_t cluster = 0) const;

 private:
  struct Submission {
    uint64_t op = 0;
    uint64_t session = 0;
    int64_t round = 0;
    uint64_t weight = 0;
    local::State state = local::State::kPending;
    bool on_device = false;  // its snapshot lies in the memory that the trainer shared
  };
  struct Cluster {
    std::string name, path;
    int listener = -1, connection = -1;
    uint64_t sequence = 0;
    std::array<uint8_t, 16> token{};
    uint64_t session = 0;
    bool joined = false, offered = false, ready = false;
    uint64_t offer_sequence = 0;
    std::shared_ptr<Memory> snapshot, values, layout, device;
    std::map<uint32_t, Submission> open;                        // by fragment: not committed
    std::map<uint64_t, std::pair<uint32_t, Submission>> ended;  // by op
    std::vector<Received> log;
  };
  struct Fragment {
    local::FragmentRecord record{};
    std::vector<float> values;
    int64_t round = 0;
  };

  void Run();
  void Accept(Cluster& cluster);
  void Read(size_t index);
  void Handle(size_t index, const Received& message, int descriptor);
  void OnHello(Cluster& cluster, const local::Hello& hello);
  void OnJoin(Cluster& cluster, const local::Join& join, int schema);
  void OnShare(Cluster& cluster, const local::Share& share, int memory);
  void OnOffer(Cluster& cluster, uint64_t sequence);
  void FormIfComplete();
  void OnSubmit(Cluster& cluster, const local::Submit& submit);
  void OnQuery(Cluster& cluster, const local::Query& query);
  void CommitComplete();
  void Deliver(Cluster& cluster, uint32_t fragment, const Submission& submission,
               local::State state);
  void WriteValue(Cluster& cluster, uint32_t fragment);
  void BuildLayout(const std::vector<local::TensorRecord>& tensors);
  local::Header Head(Cluster& cluster, local::Type type, uint32_t size, uint64_t answers);
  void Send(Cluster& cluster, const void* bytes, size_t size,
            const std::vector<int>& descriptors = {});
  void Close(Cluster& cluster);
  void OpenListeners();
  void Wake();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  const std::string directory_;
  Options options_;
  Hook hook_;
  std::vector<Cluster> clusters_;
  std::vector<Fragment> fragments_;
  std::vector<local::PlacementRecord> placements_;
  bool outer_ = true, formed_ = false, stop_ = false, listening_ = false;
  uint64_t incarnation_ = 1, tokens_ = 0;
  int wake_ = -1;
  std::thread thread_;
};

}  // namespace causeway::fake
