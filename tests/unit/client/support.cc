#include "tests/unit/client/support.h"

#include <cstdlib>
#include <filesystem>

namespace causeway::test {

TemporaryDirectory::TemporaryDirectory() {
  char pattern[] = "/tmp/causeway-client-XXXXXX";
  REQUIRE(mkdtemp(pattern) != nullptr);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;  // a file that another test process removes meanwhile
  std::filesystem::remove_all(path_, ignored);
}

int OpenHandle(const std::string& socket, cw_handle** handle, uint32_t connect_timeout_ms,
               const char* run, uint32_t rank, uint32_t world) {
  cw_options options{};
  options.struct_bytes = sizeof(options);
  options.run = run;
  options.socket_path = socket.c_str();
  options.rank = rank;
  options.world = world;
  options.connect_timeout_ms = connect_timeout_ms;
  return cw_open(&options, handle);
}

Trainer::Trainer(const std::string& socket) {
  const int code = OpenHandle(socket, &handle);
  INFO(LastError().text);
  REQUIRE(code == CW_OK);
}

int Trainer::Join(bool outer, cw_init init) {
  cw_tensor tensors[2] = {};
  tensors[0].name = "a";
  tensors[0].dimensions = 2;
  tensors[0].alias_of = -1;
  tensors[0].shape[0] = 2;
  tensors[0].shape[1] = 3;
  tensors[1].name = "b";
  tensors[1].dimensions = 1;
  tensors[1].alias_of = -1;
  tensors[1].shape[0] = 5;
  cw_join_options options{};
  options.struct_bytes = sizeof(options);
  options.init = static_cast<uint8_t>(init);
  options.outer = outer ? 1 : 0;
  layout.struct_bytes = sizeof(layout);
  return cw_join(handle, &options, tensors, 2, &layout);
}

int Trainer::Offer() {
  if (layout.outer == 0) return cw_offer(handle, nullptr, 0);
  const auto slices = Slices();
  return cw_offer(handle, slices.data(), 2);
}

int Trainer::Ready(int64_t timeout_ms) { return cw_ready(handle, timeout_ms, &start, nullptr); }

void Trainer::Start(bool outer) {
  int code = Join(outer);
  if (code == CW_OK) code = Offer();
  if (code == CW_OK) code = Ready();
  INFO(LastError().text);
  REQUIRE(code == CW_OK);
}

int Trainer::Submit(uint64_t* op, uint64_t weight, int64_t base_round) {
  cw_submission submission{};
  submission.struct_bytes = sizeof(submission);
  submission.base_round = base_round;
  submission.weight = weight;
  const auto slices = Slices();
  return cw_submit(handle, &submission, slices.data(), 2, op);
}

cw_result Trainer::Wait(uint64_t op) {
  cw_result result = NewResult();
  const int code = cw_wait(handle, op, 20'000, &result);
  INFO(LastError().text);
  REQUIRE(code == CW_OK);
  return result;
}

int Trainer::Apply(uint64_t op, cw_apply_mode mode, float mix) {
  const auto slices = Slices();
  return cw_apply(handle, op, mode, mix, slices.data(), 2);
}

void Trainer::ApplyAndTell(uint64_t op, cw_apply_mode mode) {
  const cw_result result = Wait(op);
  REQUIRE(Apply(op, mode) == CW_OK);
  REQUIRE(cw_applied(handle, result.fragment, result.round) == CW_OK);
}

std::vector<cw_slice> Trainer::Slices() {
  std::vector<cw_slice> slices(2);
  slices[0] = cw_slice{0, 0, 0, {}, 0, CW_WHOLE, a.data(), nullptr, nullptr};
  slices[1] = cw_slice{1, 0, 0, {}, 0, CW_WHOLE, b.data(), nullptr, nullptr};
  return slices;
}

void Trainer::Add(float value) {
  for (float& element : a) element += value;
  for (float& element : b) element += value;
}

}  // namespace causeway::test
