// Shared by the shim's tests: a directory for sockets, and a trainer with a few tensors over the C
// ABI.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "client/include/causeway.h"
#include "tests/unit/client/fake_gateway.h"

namespace causeway::test {

// Removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline cw_error LastError() {
  cw_error error{};
  cw_last_error(&error);
  return error;
}

inline cw_result NewResult() {
  cw_result result{};
  result.struct_bytes = sizeof(result);
  return result;
}

int OpenHandle(const std::string& socket, cw_handle** handle, uint32_t connect_timeout_ms = 0,
               const char* run = "demo", uint32_t rank = 0, uint32_t world = 1);

// fp32 tensors "a" [2, 3] and "b" [5], in one fragment of 512 elements (b from element 256).
struct Trainer {
  explicit Trainer(const std::string& socket);
  ~Trainer() { cw_close(handle); }
  Trainer(const Trainer&) = delete;

  int Join(bool outer = true, cw_init init = CW_INIT_RUN);
  int Offer();
  int Ready(int64_t timeout_ms = 20'000);
  void Start(bool outer = true);  // all of it; requires success
  int Submit(uint64_t* op, uint64_t weight = 1, int64_t base_round = CW_BASE_CURRENT);
  cw_result Wait(uint64_t op);  // requires a result
  int Apply(uint64_t op, cw_apply_mode mode = CW_CARRY, float mix = 0);
  void ApplyAndTell(uint64_t op, cw_apply_mode mode = CW_CARRY);
  std::vector<cw_slice> Slices();
  void Add(float value);

  cw_handle* handle = nullptr;
  std::vector<float> a{0, 1, 2, 3, 4, 5};
  std::vector<float> b{10, 11, 12, 13, 14};
  cw_layout layout{};
  int start = -1;
};

}  // namespace causeway::test
