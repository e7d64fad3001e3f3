// The built library: what it needs, what it shows, that C programs and the C++ wrapper can use it.
#include <array>
#include <cstdio>
#include <memory>

#include "client/include/causeway.hpp"
#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

// The output of a command, its lines; fails where the command does.
std::vector<std::string> Lines(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe != nullptr);
  std::vector<std::string> lines;
  std::array<char, 4096> buffer;
  while (fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) {
    std::string line = buffer.data();
    while (!line.empty() && line.back() == '\n') line.pop_back();
    lines.push_back(line);
  }
  REQUIRE(pclose(pipe.release()) == 0);
  return lines;
}

#ifndef CAUSEWAY_TEST_SANITIZED
TEST_CASE("libcauseway needs libc alone") {
  int needed = 0;
  for (const std::string& line : Lines("readelf -d " CAUSEWAY_TEST_LIBRARY)) {
    if (line.find("(SONAME)") != std::string::npos)
      REQUIRE(line.find("[libcauseway.so.0]") != std::string::npos);
    if (line.find("(NEEDED)") == std::string::npos) continue;
    ++needed;
    INFO(line);
    const bool libc = line.find("[libc.so.6]") != std::string::npos ||
                      line.find("[libm.so.6]") != std::string::npos ||
                      line.find("[ld-linux") != std::string::npos;
    REQUIRE(libc);
  }
  REQUIRE(needed >= 1);
}

TEST_CASE("libcauseway shows cw_ functions and nothing else") {
  int shown = 0;
  for (const std::string& line : Lines("nm -D --defined-only " CAUSEWAY_TEST_LIBRARY)) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (name == "CAUSEWAY_0") continue;  // the version node
    INFO(line);
    REQUIRE(name.compare(0, 3, "cw_") == 0);
    ++shown;
  }
  REQUIRE(shown == 27);
}
#endif

TEST_CASE("a C program trains with it") {
  TemporaryDirectory directory;
  fake::FakeGateway gateway(directory.path());
  const auto lines = Lines(CAUSEWAY_TEST_C_TRAINER " " + gateway.socket());
  REQUIRE(lines == std::vector<std::string>{"done"});
  REQUIRE(gateway.Round(0) == 5);
  REQUIRE(gateway.WaitCount(local::Type::kLeave, 1));
}

TEST_CASE("the C++ wrapper throws what failed and trains") {
  REQUIRE_THROWS_AS(causeway::Trainer({"demo", "/nonexistent/socket"}), causeway::Error);
  try {
    causeway::Trainer({"demo", "/nonexistent/socket"});
  } catch (const causeway::Error& error) {
    REQUIRE(error.code() == CW_GATEWAY_LOST);
    REQUIRE(error.retryable());
    REQUIRE(std::string(error.what()).find("/nonexistent/socket") != std::string::npos);
  }
  TemporaryDirectory directory;
  fake::FakeGateway gateway(directory.path());
  causeway::Trainer trainer({"demo", gateway.socket()});
  std::vector<float> weight{1, 2, 3};
  cw_tensor tensor{};
  tensor.name = "weight";
  tensor.alias_of = -1;
  tensor.dimensions = 1;
  tensor.shape[0] = 3;
  REQUIRE(trainer.Join({tensor}, true).local_steps == 4);
  const std::vector<cw_slice> slices = {
      cw_slice{0, 0, 0, {}, 0, CW_WHOLE, weight.data(), nullptr, nullptr}};
  trainer.Offer(slices);
  REQUIRE(trainer.Ready() == CW_MATCH);
  weight[0] = 7;
  const uint64_t op = trainer.Submit(0, 1, slices);
  const cw_result result = trainer.Wait(op);
  trainer.Apply(op, CW_CARRY, slices);
  trainer.Applied(0, result.round);
  REQUIRE(weight == std::vector<float>{7, 2, 3});
  REQUIRE(trainer.Fragment(0).base_round == 1);
  REQUIRE(trainer.Placement(0).elements == 3);
  trainer.Finish();
  causeway::Trainer moved = std::move(trainer);
  moved.Leave();
}

}  // namespace
}  // namespace causeway::test
