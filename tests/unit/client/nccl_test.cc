// The NCCL bridge with ranks as threads, against stand-ins for NCCL and the CUDA driver: what every
// rank ends with, the order of its calls, and that no rank hangs or writes when another fails.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "client/include/causeway_nccl.h"
#include "tests/unit/client/cuda_stand_in.h"
#include "tests/unit/client/nccl_stand_in.h"
#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

using fake::FakeGateway;
using fake::Options;

// Rank 0's bytes for all, over memory. A rank that has ended makes the others' broadcasts fail.
class Host {
 public:
  explicit Host(uint32_t ranks) : ranks_(ranks) {}
  int Broadcast(bool leads, void* bytes, size_t size) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto* data = static_cast<const char*>(bytes);
    if (leads) bytes_.assign(data, data + size);
    const uint64_t turn = turn_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++turn_;
      said_ = bytes_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return turn_ != turn || lost_; });
      if (turn_ == turn) return 1;
    }
    std::memcpy(bytes, said_.data(), size);
    return 0;
  }
  void Lose() {
    const std::lock_guard<std::mutex> lock(mutex_);
    lost_ = true;
    changed_.notify_all();
  }

 private:
  const uint32_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<char> bytes_, said_;
  uint32_t arrived_ = 0;
  uint64_t turn_ = 0;
  bool lost_ = false;
};

// One rank: two tensors of the device, a [6] and b [5].
struct Rank {
  Rank(Host& host, uint32_t number, uint32_t ranks, uint32_t timeout_ms) : host_(host) {
    stream = stand_in::NewStream();
    a = stand_in::Allocate(std::vector<float>(6, static_cast<float>(number)));
    b = stand_in::Allocate(std::vector<float>(5, static_cast<float>(number)));
    tensors_[0].name = "a";
    tensors_[1].name = "b";
    tensors_[0].shape[0] = 2;
    tensors_[0].shape[1] = 3;
    tensors_[1].shape[0] = 5;
    tensors_[0].dimensions = 2;
    tensors_[1].dimensions = 1;
    tensors_[0].alias_of = tensors_[1].alias_of = -1;
    options.struct_bytes = sizeof(options);
    options.rank = number;
    options.ranks = ranks;
    options.stream = stream;
    options.tensors = tensors_;
    options.tensor_count = 2;
    options.timeout_ms = timeout_ms;
    options.broadcast = [](void* context, void* bytes, size_t size) {
      auto* self = static_cast<Rank*>(context);
      return self->host_.Broadcast(self->options.rank == 0, bytes, size);
    };
    options.context = this;
  }
  std::vector<cw_slice> Slices() const {
    return {cw_slice{0, 0, CW_MEMORY_CUDA, {}, 0, CW_WHOLE, a, nullptr, nullptr},
            cw_slice{1, 0, CW_MEMORY_CUDA, {}, 0, CW_WHOLE, b, nullptr, nullptr}};
  }
  std::vector<float> A() const {
    stand_in::Synchronize(stream);
    return stand_in::Read(a, 6);
  }

  cw_nccl_options options{};
  cw_nccl* bridge = nullptr;
  void* stream;
  void* a;
  void* b;
  std::string error;  // of the last call, on its thread

 private:
  Host& host_;
  cw_tensor tensors_[2] = {};
};

// The ranks of one cluster, and a gateway for rank 0.
struct Scene {
  explicit Scene(uint32_t ranks, uint32_t timeout_ms = 20'000, bool hold = false) : host(ranks) {
    stand_in::Reset();
    stand_in::ResetNccl();
    Options with;
    with.hold = hold;
    gateway = std::make_unique<FakeGateway>(directory.path(), with);
    for (uint32_t number = 0; number < ranks; ++number) {
      members.push_back(std::make_unique<Rank>(host, number, ranks, timeout_ms));
    }
    trainer = std::make_unique<Trainer>(gateway->socket());
    REQUIRE(trainer->Join() == CW_OK);
    cw_cuda cuda{};
    cuda.struct_bytes = sizeof(cuda);
    cuda.stream = members[0]->stream;
    REQUIRE(cw_cuda_use(trainer->handle, &cuda, nullptr) == CW_OK);
    const auto slices = members[0]->Slices();
    REQUIRE(cw_offer(trainer->handle, slices.data(), 2) == CW_OK);
    REQUIRE(trainer->Ready() == CW_OK);
  }
  ~Scene() {
    for (auto& member : members) cw_nccl_close(member->bridge);
    trainer.reset();
    CHECK(stand_in::Leaks() == "");
    CHECK(stand_in::Communicators() == 0);
  }
  // The same call on all ranks at once; their codes.
  std::vector<int> All(const std::function<int(Rank&)>& call) {
    std::vector<int> codes(members.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < members.size(); ++i) {
      threads.emplace_back([&, i] {
        codes[i] = call(*members[i]);
        if (codes[i] != CW_OK) members[i]->error = LastError().text;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return codes;
  }
  std::vector<int> Open() {
    return All([](Rank& rank) { return cw_nccl_open(&rank.options, &rank.bridge); });
  }
  uint64_t Submit() {
    cw_submission submission{};
    submission.struct_bytes = sizeof(submission);
    submission.base_round = CW_BASE_CURRENT;
    submission.weight = 1;
    const auto slices = members[0]->Slices();
    uint64_t op = 0;
    REQUIRE(cw_submit(trainer->handle, &submission, slices.data(), 2, &op) == CW_OK);
    return op;
  }
  std::vector<int> Collect(uint64_t op, int64_t timeout_ms = 20'000) {
    return All([&](Rank& rank) {
      const auto slices = rank.Slices();
      cw_result result = NewResult();
      return cw_nccl_collect(rank.bridge, rank.options.rank == 0 ? trainer->handle : nullptr, op,
                             timeout_ms, CW_CARRY, 0, slices.data(), 2, &result);
    });
  }

  TemporaryDirectory directory;
  Host host;
  std::unique_ptr<FakeGateway> gateway;
  std::vector<std::unique_ptr<Rank>> members;
  std::unique_ptr<Trainer> trainer;
};

const std::vector<int> kAllOk(3, CW_OK);
const std::vector<int> kAllComm(3, CW_COMM);

TEST_CASE("gradients are averaged to rank 0, and what came of them reaches every rank") {
  Scene scene(3);
  REQUIRE(scene.Open() == kAllOk);
  const auto reduced = scene.All([](Rank& rank) {
    const auto slices = rank.Slices();
    return cw_nccl_reduce(rank.bridge, slices.data(), 2);
  });
  REQUIRE(reduced == kAllOk);
  REQUIRE(scene.members[0]->A() == std::vector<float>(6, 1.0f));
  REQUIRE(scene.members[2]->A() == std::vector<float>(6, 2.0f));

  const uint64_t op = scene.Submit();
  REQUIRE(scene.Collect(op) == kAllOk);
  for (const auto& member : scene.members) {
    REQUIRE(member->A() == std::vector<float>(6, 1.0f));
    REQUIRE(stand_in::Read(member->b, 5) == std::vector<float>(5, 1.0f));
  }
  // One launch sequence in schema order on every rank, then the collective that ends it.
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::string> calls = stand_in::NcclCalls(rank);
    calls.erase(calls.begin(), calls.end() - 3);
    REQUIRE(calls ==
            std::vector<std::string>{"ncclBroadcast(24)", "ncclBroadcast(20)", "ncclAllReduce(4)"});
  }
  REQUIRE(scene.All([&](Rank& rank) {
    const auto slices = rank.Slices();
    return cw_nccl_read(rank.bridge, rank.options.rank == 0 ? scene.trainer->handle : nullptr, 0, 0,
                        slices.data(), 2);
  }) == kAllOk);
  REQUIRE(scene.members[2]->A() == std::vector<float>(6, 0.0f));
}

TEST_CASE("an error of rank 0 is every rank's, nothing is launched, and the bridge goes on") {
  Scene scene(3, 20'000, true);
  REQUIRE(scene.Open() == kAllOk);
  const size_t calls = stand_in::NcclCalls(1).size();
  const uint64_t op = scene.Submit();
  // The others hear WAIT about once a second until rank 0 gives up.
  REQUIRE(scene.Collect(op, 1'500) == std::vector<int>(3, CW_TIMEOUT));
  REQUIRE(scene.Collect(op + 1, 0) == std::vector<int>(3, CW_ARGUMENT));
  REQUIRE(stand_in::NcclCalls(1).size() == calls);
  REQUIRE(scene.members[1]->error == scene.members[0]->error);
  scene.gateway->Release();
  REQUIRE(scene.Collect(op) == kAllOk);
}

TEST_CASE("a collective that fails anywhere is aborted everywhere and no rank has written") {
  struct Fault {
    const char* symbol;
    int rank, n;
  };
  for (const Fault& fault :
       {Fault{"ncclBroadcast", 0, 1}, Fault{"ncclBroadcast", 2, 2}, Fault{"ncclAllReduce", 1, 1}}) {
    INFO(fault.symbol << " on rank " << fault.rank);
    Scene scene(3, 300);
    REQUIRE(scene.Open() == kAllOk);
    const uint64_t op = scene.Submit();
    std::vector<std::vector<float>> before;
    for (const auto& member : scene.members) before.push_back(member->A());
    stand_in::FailNccl(fault.symbol, fault.rank, fault.n, 2);
    REQUIRE(scene.Collect(op) == kAllComm);
    for (size_t i = 0; i < 3; ++i) REQUIRE(scene.members[i]->A() == before[i]);
    REQUIRE(stand_in::NcclCalls(fault.rank).back() == "ncclCommAbort");
    REQUIRE(scene.Collect(op) == kAllComm);  // from now on
    for (auto& member : scene.members) {
      REQUIRE(member->error.find("start the cluster's ranks again") != std::string::npos);
    }
  }
}

TEST_CASE("an asynchronous error is seen while waiting") {
  Scene scene(3, 300);
  REQUIRE(scene.Open() == kAllOk);
  const uint64_t op = scene.Submit();
  stand_in::SetAsyncError(1, 3);
  REQUIRE(scene.Collect(op) == kAllComm);
  REQUIRE(scene.members[1]->error.find("unhandled system error") != std::string::npos);
}

TEST_CASE("a rank that is gone before the word leaves nobody waiting") {
  Scene scene(3);
  REQUIRE(scene.Open() == kAllOk);
  const uint64_t op = scene.Submit();
  const auto codes = scene.All([&](Rank& rank) {
    if (rank.options.rank == 2) {
      scene.host.Lose();
      return static_cast<int>(CW_COMM);
    }
    const auto slices = rank.Slices();
    return cw_nccl_collect(rank.bridge, rank.options.rank == 0 ? scene.trainer->handle : nullptr,
                           op, 20'000, CW_CARRY, 0, slices.data(), 2, nullptr);
  });
  REQUIRE(codes == kAllComm);
}

TEST_CASE("a communicator that cannot be made is an error on the rank, and bounded on the others") {
  Scene scene(3, 300);
  stand_in::FailNccl("ncclGetUniqueId", 0, 1, 2);
  REQUIRE(scene.Open() == kAllComm);
  stand_in::FailNccl("ncclCommInitRankConfig", 1, 1, 2);
  const std::vector<int> codes = scene.Open();
  REQUIRE(codes[1] == CW_COMM);
  for (auto& member : scene.members) {
    cw_nccl_close(member->bridge);
    member->bridge = nullptr;
  }
}

}  // namespace
}  // namespace causeway::test
