#include "client/nccl/bridge.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "client/shim/number.h"

namespace causeway::client::nccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kTimeoutMsDefault = 60'000;
constexpr int64_t kWaitMs = 1'000;  // between two words WAIT
constexpr auto kPollPause = std::chrono::microseconds(100);
constexpr uint64_t kAlignBytes = 256;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

cuda::Pointer PointerOf(const void* memory) {
  return static_cast<cuda::Pointer>(reinterpret_cast<uintptr_t>(memory));
}
void* MemoryOf(cuda::Pointer pointer) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(pointer));
}

DataType TypeOf(uint8_t dtype) {
  return dtype == CW_BF16 ? kBfloat16 : dtype == CW_FP16 ? kFloat16 : kFloat32;
}

template <size_t N>
void Put(const std::string& text, char (&out)[N]) {
  std::memset(out, 0, N);
  std::memcpy(out, text.data(), std::min(text.size(), N - 1));
}

cw_error ErrorOf(const Failure& failure) {
  cw_error error{};
  error.code = failure.code;
  error.retryable = failure.retryable ? 1 : 0;
  error.rank = failure.rank;
  error.round = failure.round;
  Put(failure.cluster, error.cluster);
  Put(failure.tensor, error.tensor);
  Put(failure.text, error.text);
  return error;
}

Status StatusOf(cw_error error) {
  error.cluster[sizeof(error.cluster) - 1] = error.tensor[sizeof(error.tensor) - 1] = 0;
  error.text[sizeof(error.text) - 1] = 0;
  Failure failure;
  failure.code = error.code;
  failure.retryable = error.retryable != 0;
  failure.rank = error.rank;
  failure.round = error.round;
  failure.cluster = error.cluster;
  failure.tensor = error.tensor;
  failure.text = error.text;
  return Status(std::move(failure));
}

// What a call of the library has just failed with.
Status LastFailure() {
  cw_error error{};
  cw_last_error(&error);
  return StatusOf(error);
}

}  // namespace

Status Bridge::Open(const cw_nccl_options& options, std::unique_ptr<Bridge>& bridge) {
  if (options.broadcast == nullptr || options.ranks == 0 || options.rank >= options.ranks) {
    return Status(CW_ARGUMENT, "options: no broadcast, or rank " + std::to_string(options.rank) +
                                   " of " + std::to_string(options.ranks) + " is no rank");
  }
  const Calls* calls = nullptr;
  Status status = Load(calls);
  std::unique_ptr<Bridge> opened;
  if (status.ok()) {
    opened.reset(new Bridge(options, *calls));
    status = Schema::Build(options.tensors, options.tensor_count, opened->schema_);
  }
  if (status.ok()) status = cuda::Device::Open(options.device, opened->device_);
  if (!status.ok()) return status;
  if (status = opened->Connect(); !status.ok()) return status;
  bridge = std::move(opened);
  return Status();
}

Status Bridge::Connect() {
  Word word{};
  Status status = Lead(
      [this](Word& mine) {
        const Result result = calls_.unique_id(&mine.id);
        return result == kSuccess ? Status()
                                  : Status(CW_COMM, std::string("ncclGetUniqueId failed: ") +
                                                        calls_.error_string(result));
      },
      word);
  if (!status.ok()) return status;
  const cuda::Device::Current current(*device_);
  Config config;
  const Result result = calls_.initialise(&communicator_, static_cast<int>(options_.ranks), word.id,
                                          static_cast<int>(options_.rank), &config);
  if (result != kSuccess && result != kInProgress) {
    return Abort(std::string("ncclCommInitRankConfig failed: ") + calls_.error_string(result));
  }
  return Settle("ncclCommInitRankConfig");
}

Bridge::~Bridge() {
  if (communicator_ == nullptr) return;
  const cuda::Device::Current current(*device_);
  const Result result = calls_.finalise(communicator_);
  if ((result == kSuccess || result == kInProgress) && Settle("ncclCommFinalize").ok()) {
    calls_.destroy(communicator_);
  } else if (communicator_ != nullptr) {
    calls_.abort(communicator_);
  }
}

Status Bridge::Broadcast(Word& word) {
  if (options_.broadcast(options_.context, &word, sizeof(word)) == 0) return Status();
  return Abort("the cluster's ranks lost each other");
}

Status Bridge::Lead(const std::function<Status(Word&)>& action, Word& word) {
  if (!leads()) {
    do {
      if (Status status = Broadcast(word); !status.ok()) return status;
    } while (word.kind == Kind::kWait);
    if (word.kind == Kind::kReady) return Status();
    return word.kind == Kind::kError ? StatusOf(word.error)
                                     : Abort("rank 0 said what this library does not know");
  }
  Status done = action(word);
  if (!broken_.ok()) return Status(broken_.failure());
  word.kind = done.ok() ? Kind::kReady : Kind::kError;
  if (!done.ok()) word.error = ErrorOf(done.failure());
  if (Status status = Broadcast(word); !status.ok()) return status;
  return done;
}

Status Bridge::Abort(std::string text) {
  if (communicator_ != nullptr) calls_.abort(std::exchange(communicator_, nullptr));
  broken_ = Status(CW_COMM, "rank " + std::to_string(options_.rank) + ": " + std::move(text) +
                                "; start the cluster's ranks again");
  return Status(broken_.failure());
}

Status Bridge::Poll(const std::string& what,
                    const std::function<Status(Result state, bool& done)>& step) {
  const auto until =
      Clock::now() +
      std::chrono::milliseconds(options_.timeout_ms == 0 ? kTimeoutMsDefault : options_.timeout_ms);
  for (;;) {
    Result state = kSuccess;
    const Result asked = calls_.async_error(communicator_, &state);
    const Result result = asked != kSuccess ? asked : state;
    if (result != kSuccess && result != kInProgress) {
      return Abort(what + " failed: " + calls_.error_string(result));
    }
    bool done = false;
    if (Status status = step(result, done); !status.ok()) return Abort(status.failure().text);
    if (done) return Status();
    if (Clock::now() >= until) return Abort(what + " makes no progress: a rank may be gone");
    std::this_thread::sleep_for(kPollPause);  // NCCL has no call that waits with a bound
  }
}

Status Bridge::Settle(const char* what) {
  return Poll(what, [](Result state, bool& done) {
    done = state == kSuccess;
    return Status();
  });
}

// One launch sequence; NCCL has taken it, or the communicator is gone.
Status Bridge::Launch(const std::function<Result()>& collectives) {
  Result result = calls_.group_start();
  if (result == kSuccess) result = collectives();
  const Result ended = calls_.group_end();
  if (result == kSuccess || result == kInProgress) result = ended;
  if (result != kSuccess && result != kInProgress) {
    return Abort(std::string("a collective could not be launched: ") + calls_.error_string(result));
  }
  return Settle("launching a collective");
}

Status Bridge::Await() {
  std::shared_ptr<cuda::Mark> mark;
  const auto stream = static_cast<cuda::Stream>(options_.stream);
  if (Status status = device_->Record(stream, mark); !status.ok()) {
    return Abort(status.failure().text);
  }
  return Poll("a collective", [&](Result, bool& done) { return device_->Reached(*mark, done); });
}

uint64_t Bridge::CountOf(const cw_slice& slice) const {
  return slice.count == CW_WHOLE ? schema_.tensors()[slice.tensor].elements - slice.first
                                 : slice.count;
}

Status Bridge::CheckSlices(const cw_slice* slices, uint32_t count) const {
  if (count > 0 && slices == nullptr) return Status(CW_ARGUMENT, "slices is NULL");
  for (uint32_t i = 0; i < count; ++i) {
    if (slices[i].tensor >= schema_.tensors().size()) {
      return Status(CW_ARGUMENT, "a slice of a tensor that was not named");
    }
    const Tensor& tensor = schema_.tensors()[slices[i].tensor];
    if (slices[i].memory != CW_MEMORY_CUDA || slices[i].cast_dtype > CW_FP16 ||
        slices[i].first > tensor.elements ||
        CountOf(slices[i]) > tensor.elements - slices[i].first) {
      return TensorFailure(CW_ARGUMENT, tensor.name, "the slice is not of it, or not CUDA memory");
    }
    if (i > 0 &&
        (slices[i].tensor < slices[i - 1].tensor ||
         (slices[i].tensor == slices[i - 1].tensor && slices[i].first < slices[i - 1].first))) {
      return TensorFailure(CW_ARGUMENT, tensor.name, "slices come in the order of the schema");
    }
  }
  return Status();
}

// The slices with `out` and `cast` in staging memory, and what every rank gets from there.
Status Bridge::Stage(const cw_slice* slices, uint32_t count, std::vector<cw_slice>& staged,
                     std::vector<Item>& items) {
  uint64_t used = kAlignBytes;  // the first is the flag of the last collective
  for (uint32_t i = 0; i < count; ++i) {
    const cw_slice& slice = slices[i];
    if (schema_.tensors()[slice.tensor].alias_of >= 0 || CountOf(slice) == 0) continue;
    staged.push_back(slice);
    Item item;
    item.count = CountOf(slice);
    item.dtype = schema_.tensors()[slice.tensor].dtype;
    item.staged = used;
    item.target = PointerOf(slice.out != nullptr ? slice.out : slice.data);
    used += RoundUp(item.count * BytesOf(item.dtype));
    items.push_back(item);
    if (slice.cast == nullptr) continue;
    item.dtype = slice.cast_dtype;
    item.staged = used;
    item.target = PointerOf(slice.cast);
    used += RoundUp(item.count * BytesOf(item.dtype));
    items.push_back(item);
  }
  if (device_->snapshot_bytes() < used &&
      device_->MakeSnapshot(used, false) == cuda::Device::Kind::kNone) {
    return Status(CW_CUDA, "no device memory for " + std::to_string(used) + " bytes of staging");
  }
  size_t next = 0;
  for (cw_slice& slice : staged) {
    Item& value = items[next++];
    value.staged = device_->SnapshotAt(value.staged);
    slice.out = MemoryOf(value.staged);
    if (slice.cast == nullptr) continue;
    Item& cast = items[next++];
    cast.staged = device_->SnapshotAt(cast.staged);
    slice.cast = MemoryOf(cast.staged);
  }
  return Status();
}

Status Bridge::Spread(const std::vector<Item>& items) {
  const cuda::Device::Current current(*device_);
  const auto stream = static_cast<cuda::Stream>(options_.stream);
  Status status = Launch([&] {
    for (const Item& item : items) {
      void* const memory = MemoryOf(item.staged);
      const Result result = calls_.broadcast(memory, memory, item.count, TypeOf(item.dtype), 0,
                                             communicator_, stream);
      if (result != kSuccess && result != kInProgress) return result;
    }
    return kSuccess;
  });
  // Ends on this rank only when it has begun on all, that is, when all have what came before it.
  void* const flag = MemoryOf(device_->SnapshotAt(0));
  if (status.ok()) {
    status = Launch(
        [&] { return calls_.all_reduce(flag, flag, 1, kInt32, kSum, communicator_, stream); });
  }
  if (status.ok()) status = Await();
  if (!status.ok()) return status;
  std::vector<cuda::Device::Move> moves;
  for (const Item& item : items) {
    moves.push_back({item.target, item.staged, item.count * BytesOf(item.dtype)});
  }
  if (Status status = device_->OnDevice(stream, moves); !status.ok()) {
    return Abort(status.failure().text);
  }
  return Status();
}

Status Bridge::Reduce(const cw_slice* slices, uint32_t count) {
  if (!broken_.ok()) return Status(broken_.failure());
  if (Status status = CheckSlices(slices, count); !status.ok()) return status;
  const cuda::Device::Current current(*device_);
  Operation operations[3] = {-1, -1, -1};  // by dtype: the sum of x / ranks
  const float share = 1.0f / static_cast<float>(options_.ranks);
  uint16_t bf16 = ToBf16(share), fp16 = ToFp16(share);
  float fp32 = share;
  void* const scalars[3] = {&fp32, &bf16, &fp16};
  Status status = Launch([&]() -> Result {
    for (uint32_t i = 0; i < count; ++i) {
      const Tensor& tensor = schema_.tensors()[slices[i].tensor];
      if (tensor.alias_of >= 0 || CountOf(slices[i]) == 0) continue;
      const DataType type = TypeOf(tensor.dtype);
      Result result = kSuccess;
      if (operations[tensor.dtype] < 0) {
        result = calls_.scaled_sum(&operations[tensor.dtype], scalars[tensor.dtype], type,
                                   kScalarOfHost, communicator_);
      }
      if (result == kSuccess) {
        result = calls_.reduce(slices[i].data, slices[i].data, CountOf(slices[i]), type,
                               operations[tensor.dtype], 0, communicator_,
                               static_cast<cuda::Stream>(options_.stream));
      }
      if (result != kSuccess && result != kInProgress) return result;
    }
    return kSuccess;
  });
  if (status.ok()) status = Await();
  for (const Operation operation : operations) {
    if (operation >= 0 && communicator_ != nullptr) {
      calls_.drop_operation(operation, communicator_);
    }
  }
  return status;
}

Status Bridge::Collect(cw_handle* handle, uint64_t op, int64_t timeout_ms, int mode, float mix,
                       const cw_slice* slices, uint32_t count, cw_result& result) {
  if (!broken_.ok()) return Status(broken_.failure());
  std::vector<cw_slice> staged;
  std::vector<Item> items;
  Status prepared = CheckSlices(slices, count);
  if (prepared.ok()) prepared = Stage(slices, count, staged, items);
  const auto until = Clock::now() + std::chrono::milliseconds(std::max<int64_t>(timeout_ms, 0));
  Word word{};
  Status status = Lead(
      [&](Word& mine) -> Status {
        if (!prepared.ok()) return Status(prepared.failure());
        for (;;) {
          const auto left =
              std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
          const int64_t wait_ms =
              timeout_ms < 0 ? kWaitMs : std::clamp<int64_t>(left.count(), 0, kWaitMs);
          mine.result.struct_bytes = sizeof(mine.result);
          const int code = cw_wait(handle, op, wait_ms, &mine.result);
          if (code == CW_OK) break;
          const bool again = code == CW_TIMEOUT || code == CW_STALLED || code == CW_GATEWAY_LOST;
          if (!again || (timeout_ms >= 0 && left.count() <= 0)) return LastFailure();
          mine.kind = Kind::kWait;
          if (Status said = Broadcast(mine); !said.ok()) return said;
        }
        const int code =
            cw_apply(handle, op, mode, mix, staged.data(), static_cast<uint32_t>(staged.size()));
        return code == CW_OK ? Status() : LastFailure();
      },
      word);
  if (!status.ok()) return status;
  const uint32_t size = result.struct_bytes;
  result = word.result;
  result.struct_bytes = size;
  if (!prepared.ok()) return Abort(prepared.failure().text);  // the others will not wait for ever
  return Spread(items);
}

Status Bridge::Read(cw_handle* handle, uint32_t fragment, int64_t round, const cw_slice* slices,
                    uint32_t count) {
  if (!broken_.ok()) return Status(broken_.failure());
  std::vector<cw_slice> staged;
  std::vector<Item> items;
  Status prepared = CheckSlices(slices, count);
  if (prepared.ok()) prepared = Stage(slices, count, staged, items);
  Word word{};
  Status status = Lead(
      [&](Word&) -> Status {
        if (!prepared.ok()) return Status(prepared.failure());
        const int code =
            cw_read(handle, fragment, round, staged.data(), static_cast<uint32_t>(staged.size()));
        return code == CW_OK ? Status() : LastFailure();
      },
      word);
  if (!status.ok()) return status;
  if (!prepared.ok()) return Abort(prepared.failure().text);
  return Spread(items);
}

}  // namespace causeway::client::nccl
