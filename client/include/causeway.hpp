// C++ over causeway.h: a handle that closes itself, and failures as exceptions. Header only, C++17.
//
// Threads, ownership and time-outs are those of causeway.h; every method is one call of it.
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

inline void Check(int code) {
  if (code == CW_OK) return;
  cw_error error{};
  cw_last_error(&error);
  throw Error(error);
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
                  bool apply_replace = false, int64_t base_round = CW_BASE_CURRENT) {
    cw_submission submission{};
    submission.struct_bytes = sizeof(submission);
    submission.fragment = fragment;
    submission.base_round = base_round;
    submission.weight = weight;
    submission.apply_replace = apply_replace ? 1 : 0;
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

}  // namespace causeway

#endif  // CAUSEWAY_HPP_
