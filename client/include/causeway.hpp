// C++ over causeway.h: a handle that closes itself, operations as futures, failures as exceptions
// of their own types. Header only, C++17.
//
// Threads, ownership and time-outs are those of causeway.h; every method is one call of it.
// causeway_outer.hpp has the loop around them.
#ifndef CAUSEWAY_HPP_
#define CAUSEWAY_HPP_

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "causeway.h"

namespace causeway {

// What a call failed with; what() is the sentence for people.
class Error : public std::runtime_error {
 public:
  explicit Error(const cw_error& error) : std::runtime_error(error.text), error_(error) {}
  cw_code code() const { return static_cast<cw_code>(error_.code); }
  bool retryable() const { return error_.retryable != 0; }
  std::string cluster() const { return error_.cluster; }
  std::string tensor() const { return error_.tensor; }
  int64_t rank() const { return error_.rank; }
  int64_t round() const { return error_.round; }
  const cw_error& raw() const { return error_; }

 private:
  cw_error error_;
};

// The same call, or a wait, can succeed later.
class Retryable : public Error {
  using Error::Error;
};
class GatewayLost : public Retryable {  // reconnects by itself
  using Retryable::Retryable;
};
class Stalled : public Retryable {  // no quorum of clusters
  using Retryable::Retryable;
};
class Timeout : public Retryable {  // the operation stays pending
  using Retryable::Retryable;
};
class Interrupted : public Retryable {  // a signal handler ran
  using Retryable::Retryable;
};
class Busy : public Retryable {
  using Retryable::Retryable;
};
class Rebase : public Retryable {  // read the run's newest value and go on from there
  using Retryable::Retryable;
};
class NonFinite : public Error {  // tensor() holds NaN or Inf
  using Error::Error;
};
class Mismatch : public Error {  // schema, algorithm or results differ between clusters or ranks
  using Error::Error;
};
class LocalRanksLost : public Error {  // a rank of this cluster died, or its collectives failed
  using Error::Error;
};

[[noreturn]] inline void Throw(const cw_error& error) {
  switch (error.code) {
    case CW_GATEWAY_LOST:
      throw GatewayLost(error);
    case CW_STALLED:
      throw Stalled(error);
    case CW_TIMEOUT:
      throw Timeout(error);
    case CW_INTERRUPTED:
      throw Interrupted(error);
    case CW_BUSY:
      throw Busy(error);
    case CW_REBASE:
      throw Rebase(error);
    case CW_NONFINITE:
      throw NonFinite(error);
    case CW_SCHEMA:
    case CW_ALGORITHM:
    case CW_HASH_MISMATCH:
      throw Mismatch(error);
    case CW_COMM:
      throw LocalRanksLost(error);
    default:
      if (error.retryable != 0) throw Retryable(error);
      throw Error(error);
  }
}

inline void Check(int code) {
  if (code == CW_OK) return;
  cw_error error{};
  cw_last_error(&error);
  Throw(error);
}

// Elements of a tensor in the caller's memory; the whole tensor unless told otherwise.
inline cw_slice Slice(uint32_t tensor, void* data, uint64_t first = 0, uint64_t count = CW_WHOLE,
                      cw_memory memory = CW_MEMORY_HOST) {
  cw_slice slice{};
  slice.tensor = tensor;
  slice.memory = static_cast<uint8_t>(memory);
  slice.first = first;
  slice.count = count;
  slice.data = data;
  return slice;
}

class Trainer {
 public:
  struct Options {
    std::string run;
    std::string socket_path;  // empty: CAUSEWAY_SOCKET, or the default path
    uint32_t rank = 0;
    uint32_t world = 1;
    uint32_t connect_timeout_ms = 0;
  };

  explicit Trainer(const Options& options) {
    cw_options raw{};
    raw.struct_bytes = sizeof(raw);
    raw.rank = options.rank;
    raw.world = options.world;
    raw.connect_timeout_ms = options.connect_timeout_ms;
    raw.run = options.run.c_str();
    raw.socket_path = options.socket_path.empty() ? nullptr : options.socket_path.c_str();
    Check(cw_open(&raw, &handle_));
  }
  Trainer(Trainer&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Trainer& operator=(Trainer&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Trainer() { cw_close(handle_); }

  cw_layout Join(const std::vector<cw_tensor>& tensors, bool outer, cw_init init = CW_INIT_RUN,
                 uint32_t local_steps = 0) {
    cw_join_options options{};
    options.struct_bytes = sizeof(options);
    options.init = static_cast<uint8_t>(init);
    options.outer = outer ? 1 : 0;
    options.local_steps = local_steps;
    cw_layout layout{};
    layout.struct_bytes = sizeof(layout);
    Check(
        cw_join(handle_, &options, tensors.data(), static_cast<uint32_t>(tensors.size()), &layout));
    return layout;
  }
  // True: the gateway reads submissions from the device.
  bool UseCuda(int device, void* stream, bool private_only = false) {
    cw_cuda cuda{};
    cuda.struct_bytes = sizeof(cuda);
    cuda.device = device;
    cuda.stream = stream;
    cuda.private_only = private_only ? 1 : 0;
    int shared = 0;
    Check(cw_cuda_use(handle_, &cuda, &shared));
    return shared != 0;
  }
  void Offer(const std::vector<cw_slice>& slices) {
    Check(cw_offer(handle_, slices.data(), Count(slices)));
  }
  cw_start Ready(int64_t timeout_ms = CW_TIMEOUT_RUN) {
    int start = CW_MATCH;
    Check(cw_ready(handle_, timeout_ms, &start, nullptr));
    return static_cast<cw_start>(start);
  }
  cw_fragment Fragment(uint32_t fragment) {
    cw_fragment out{};
    Check(cw_fragment_of(handle_, fragment, &out));
    return out;
  }
  cw_placement Placement(uint32_t tensor) {
    cw_placement out{};
    Check(cw_placement_of(handle_, tensor, &out));
    return out;
  }
  uint64_t Submit(uint32_t fragment, uint64_t weight, const std::vector<cw_slice>& slices,
                  cw_origin origin = CW_ORIGIN_BASE, int64_t base_round = CW_BASE_CURRENT,
                  const char* label = nullptr) {
    cw_submission submission{};
    submission.struct_bytes = sizeof(submission);
    submission.fragment = fragment;
    submission.base_round = base_round;
    submission.weight = weight;
    submission.origin = static_cast<uint8_t>(origin);
    submission.label = label;
    uint64_t op = 0;
    Check(cw_submit(handle_, &submission, slices.data(), Count(slices), &op));
    return op;
  }
  cw_result Test(uint64_t op) {
    cw_result result = NewResult();
    Check(cw_test(handle_, op, &result));
    return result;
  }
  cw_result Wait(uint64_t op, int64_t timeout_ms = CW_TIMEOUT_RUN) {
    cw_result result = NewResult();
    Check(cw_wait(handle_, op, timeout_ms, &result));
    return result;
  }
  void Apply(uint64_t op, cw_apply_mode mode, const std::vector<cw_slice>& slices, float mix = 0) {
    Check(cw_apply(handle_, op, mode, mix, slices.data(), Count(slices)));
  }
  void Read(uint32_t fragment, int64_t round, const std::vector<cw_slice>& slices) {
    Check(cw_read(handle_, fragment, round, slices.data(), Count(slices)));
  }
  void Applied(uint32_t fragment, int64_t round) { Check(cw_applied(handle_, fragment, round)); }
  void Abandon(uint64_t op) { Check(cw_abandon(handle_, op)); }
  void Reconnect(int64_t timeout_ms = CW_TIMEOUT_RUN) { Check(cw_reconnect(handle_, timeout_ms)); }
  std::string AwaitText(uint64_t op = 0) {
    char text[600] = "";
    Check(cw_await_text(handle_, op, text, sizeof(text)));
    return text;
  }
  std::array<uint8_t, 32> Finish(int64_t timeout_ms = CW_TIMEOUT_RUN) {
    std::array<uint8_t, 32> hash{};
    Check(cw_finish(handle_, timeout_ms, hash.data()));
    return hash;
  }
  void Leave() { Check(cw_leave(handle_)); }
  int poll_fd() const { return cw_poll_fd(handle_); }
  cw_handle* get() const { return handle_; }

 private:
  static uint32_t Count(const std::vector<cw_slice>& slices) {
    return static_cast<uint32_t>(slices.size());
  }
  static cw_result NewResult() {
    cw_result result{};
    result.struct_bytes = sizeof(result);
    return result;
  }
  cw_handle* handle_ = nullptr;
};

// One submission, from its snapshot to its result: what is waited for, merged and reported. Belongs
// to a Trainer, which outlives it. Dropped without Applied, its fragment stays busy.
class Operation {
 public:
  Operation(Trainer& trainer, uint32_t fragment, uint64_t weight,
            const std::vector<cw_slice>& slices, cw_origin origin = CW_ORIGIN_BASE,
            const char* label = nullptr)
      : trainer_(&trainer),
        fragment_(fragment),
        id_(trainer.Submit(fragment, weight, slices, origin, CW_BASE_CURRENT, label)) {}

  uint64_t id() const { return id_; }
  uint32_t fragment() const { return fragment_; }
  // Without waiting: whether it has ended, with a result or abandoned. Throws what it failed with.
  bool Ready() { return Ended(result_ = trainer_->Test(id_)); }
  const cw_result& Wait(int64_t timeout_ms = CW_TIMEOUT_RUN) {
    return result_ = trainer_->Wait(id_, timeout_ms);
  }
  const cw_result& result() const { return result_; }  // as of the latest Ready or Wait
  void Apply(cw_apply_mode mode, const std::vector<cw_slice>& slices, float mix = 0) {
    trainer_->Apply(id_, mode, slices, mix);
  }
  void Applied() { trainer_->Applied(fragment_, result_.round); }
  void Abandon() { trainer_->Abandon(id_); }
  std::string AwaitText() { return trainer_->AwaitText(id_); }

 private:
  static bool Ended(const cw_result& result) {
    return result.state == CW_STATE_COMMITTED || result.state == CW_STATE_EXCLUDED ||
           result.state == CW_STATE_ABANDONED;
  }
  Trainer* trainer_;
  uint32_t fragment_;
  uint64_t id_;
  cw_result result_{};
};

}  // namespace causeway

#endif  // CAUSEWAY_HPP_
