// See nccl_stand_in.h. Prototypes are nccl.h's, in the bridge's own words (client/nccl/nccl_api.h).
#include "tests/unit/client/nccl_stand_in.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "client/nccl/nccl_api.h"
#include "tests/unit/client/cuda_stand_in.h"

namespace causeway::stand_in {
namespace {

using namespace client::nccl;  // NOLINT: NCCL's types

// One collective of a clique: every rank brings its call, in the same order.
struct Collective {
  std::atomic<int> launched{0}, given{0};  // `launched` changes without the streams' lock
  std::vector<float> sum;
  std::vector<char> bytes;
};
struct Clique {
  int ranks = 0;
  std::vector<std::shared_ptr<Collective>> collectives;
};
struct Rank {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  size_t next = 0;
  float scale = 1;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
};
struct State {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::map<Communicator, std::unique_ptr<Rank>> ranks;
  std::map<int, std::vector<std::string>> calls;
  std::map<std::pair<std::string, int>, std::pair<int, Result>> failures;
  std::map<int, Result> async;
  uint64_t next = 1;
};
State& S() {
  static State state;
  return state;
}

Result Enter(const std::string& symbol, int rank, size_t bytes = 0) {
  State& s = S();
  s.calls[rank].push_back(bytes == 0 ? symbol : symbol + "(" + std::to_string(bytes) + ")");
  for (const int whose : {rank, -1}) {
    auto found = s.failures.find({symbol, whose});
    if (found == s.failures.end() || --found->second.first > 0) continue;
    const Result result = found->second.second;
    s.failures.erase(found);
    return result;
  }
  return kSuccess;
}

size_t BytesOf(DataType type) { return type == kFloat16 || type == kBfloat16 ? 2 : 4; }

// The rank's part of its next collective; `data` moves when the stream comes to it.
void Launch(Communicator communicator, void* stream, std::function<void(Collective&)> give,
            std::function<bool(const Collective&, int)> complete,
            std::function<void(const Collective&)> take) {
  Rank& rank = *S().ranks.at(communicator);
  Clique& clique = *rank.clique;
  if (rank.next == clique.collectives.size()) {
    clique.collectives.push_back(std::make_shared<Collective>());
  }
  std::shared_ptr<Collective> one = clique.collectives[rank.next++];
  ++one->launched;
  const int ranks = clique.ranks;
  const std::shared_ptr<std::atomic<bool>> aborted = rank.aborted;  // ends this rank's part alone
  EnqueueWhen(
      stream, [one, ranks, aborted] { return one->launched == ranks || *aborted; },
      [one, give, aborted] {
        if (!*aborted) give(*one);
      });
  EnqueueWhen(
      stream, [one, ranks, complete, aborted] { return complete(*one, ranks) || *aborted; },
      [one, take, aborted] {
        if (!*aborted) take(*one);
      });
  Poke();
}

}  // namespace

void ResetNccl() {
  const std::lock_guard<std::mutex> lock(S().mutex);
  S().cliques.clear();
  S().ranks.clear();
  S().calls.clear();
  S().failures.clear();
  S().async.clear();
}
void FailNccl(const std::string& symbol, int rank, int n, int result) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  S().failures[{symbol, rank}] = {n, result};
}
void SetAsyncError(int rank, int result) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  S().async[rank] = result;
}
std::vector<std::string> NcclCalls(int rank) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  return S().calls[rank];
}
int Communicators() {
  const std::lock_guard<std::mutex> lock(S().mutex);
  return static_cast<int>(S().ranks.size());
}

extern "C" {

const char* ncclGetErrorString(Result) { return "unhandled system error"; }

Result ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  std::memset(id->bytes, 0, sizeof(id->bytes));
  const std::string name = "clique " + std::to_string(S().next++);
  std::memcpy(id->bytes, name.data(), name.size());
  return Enter("ncclGetUniqueId", 0);
}
Result ncclCommInitRankConfig(Communicator* communicator, int ranks, UniqueId id, int rank,
                              Config* config) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  if (config->blocking != 0 || config->magic != 0xcafebeef) return 4;
  if (const Result result = Enter("ncclCommInitRankConfig", rank); result != 0) return result;
  std::shared_ptr<Clique>& clique = S().cliques[id.bytes];
  if (!clique) clique = std::make_shared<Clique>();
  clique->ranks = ranks;
  *communicator = reinterpret_cast<Communicator>(static_cast<uintptr_t>(S().next++));
  auto one = std::make_unique<Rank>();
  one->clique = clique;
  one->rank = rank;
  S().ranks[*communicator] = std::move(one);
  return kInProgress;
}
Result ncclCommGetAsyncError(Communicator communicator, Result* error) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  *error = S().async[S().ranks.at(communicator)->rank];
  return kSuccess;
}
Result ncclCommFinalize(Communicator communicator) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  return Enter("ncclCommFinalize", S().ranks.at(communicator)->rank);
}
Result ncclCommDestroy(Communicator communicator) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  const Result result = Enter("ncclCommDestroy", S().ranks.at(communicator)->rank);
  S().ranks.erase(communicator);
  return result;
}
Result ncclCommAbort(Communicator communicator) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  Rank& rank = *S().ranks.at(communicator);
  const Result result = Enter("ncclCommAbort", rank.rank);
  *rank.aborted = true;
  S().ranks.erase(communicator);
  Poke();
  return result;
}
Result ncclGroupStart() { return kSuccess; }
Result ncclGroupEnd() { return kInProgress; }

Result ncclBroadcast(const void* from, void* to, size_t count, DataType type, int root,
                     Communicator communicator, client::cuda::Stream stream) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  const int rank = S().ranks.at(communicator)->rank;
  const size_t bytes = count * BytesOf(type);
  if (const Result result = Enter("ncclBroadcast", rank, bytes); result != 0) return result;
  Launch(
      communicator, stream,
      [=](Collective& one) {
        if (rank != root) return;
        const auto* data = static_cast<const char*>(from);
        one.bytes.assign(data, data + bytes);
        one.given = 1;
      },
      [](const Collective& one, int) { return one.given == 1; },
      [=](const Collective& one) { std::memcpy(to, one.bytes.data(), bytes); });
  return kSuccess;
}

Result ncclRedOpCreatePreMulSum(Operation* operation, void* scalar, DataType type, int,
                                Communicator communicator) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  Rank& rank = *S().ranks.at(communicator);
  if (type != kFloat32) return 4;
  std::memcpy(&rank.scale, scalar, sizeof(float));
  *operation = 7;
  return Enter("ncclRedOpCreatePreMulSum", rank.rank);
}
Result ncclRedOpDestroy(Operation, Communicator communicator) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  return Enter("ncclRedOpDestroy", S().ranks.at(communicator)->rank);
}

static Result Sum(const char* symbol, const void* from, void* to, size_t count, DataType type,
                  float scale, int root, Communicator communicator, void* stream) {
  const int rank = S().ranks.at(communicator)->rank;
  if (const Result result = Enter(symbol, rank, count * BytesOf(type)); result != 0) return result;
  const bool floats = type == kFloat32;
  Launch(
      communicator, stream,
      [=](Collective& one) {
        one.sum.resize(count);
        for (size_t i = 0; floats && i < count; ++i) {
          one.sum[i] += scale * static_cast<const float*>(from)[i];
        }
        ++one.given;
      },
      [](const Collective& one, int ranks) { return one.given == ranks; },
      [=](const Collective& one) {
        if (floats && (root < 0 || rank == root)) {
          std::memcpy(to, one.sum.data(), count * sizeof(float));
        }
      });
  return kSuccess;
}

Result ncclReduce(const void* from, void* to, size_t count, DataType type, Operation operation,
                  int root, Communicator communicator, client::cuda::Stream stream) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  const float scale = operation == 7 ? S().ranks.at(communicator)->scale : 1.0f;
  return Sum("ncclReduce", from, to, count, type, scale, root, communicator, stream);
}
Result ncclAllReduce(const void* from, void* to, size_t count, DataType type, Operation,
                     Communicator communicator, client::cuda::Stream stream) {
  const std::lock_guard<std::mutex> lock(S().mutex);
  return Sum("ncclAllReduce", from, to, count, type, 1.0f, -1, communicator, stream);
}

}  // extern "C"

}  // namespace causeway::stand_in
