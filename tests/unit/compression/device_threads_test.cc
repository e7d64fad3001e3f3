// The kernel bodies with one system thread for each CUDA thread: what ThreadSanitizer and
// AddressSanitizer look at. The grid itself is tested, too: it must see what it is for.
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/compression/device_support.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

using device_test::Encoded;
using device_test::Source;
using grid::Machine;

TEST_CASE("kernels on real threads make the bytes of the CPU") {
  std::vector<float> values = samples::Noise(4500, 21);
  values[17] = 3e38f;
  for (const char* text : {"int8", "int4", "int8:b4096", "nf4", "fp8", "mxfp4", "sign", "sign:b32",
                           "sign:b2048", "bf16"}) {
    const CodecSpec spec = CodecSpec::Parse(text).value();
    CAPTURE(text);
    const Source source = device_test::FullSource(values, DType::kFp32, DType::kBf16);
    const Encoded cpu = device_test::EncodeOnCpu(spec, source);
    CHECK(device_test::EncodeOnGrid(spec, source, Machine::kThreads, 1) == cpu);
    const auto n = static_cast<uint32_t>(values.size());
    const std::vector<float> sums = device_test::CombineOnGrid(spec, {cpu, cpu}, {1.0f, 1.0f}, {},
                                                               0.5f, n, Machine::kThreads, 2);
    const std::vector<float> expected =
        device_test::CombineOnCpu({cpu, cpu}, {1.0f, 1.0f}, {}, 0.5f, n);
    CHECK(std::memcmp(sums.data(), expected.data(), n * sizeof(float)) == 0);
  }
}

// Each thread passes its number on to its neighbour by shared memory, with or without the barrier.
std::vector<uint32_t> PassOn(uint64_t seed, bool barrier) {
  std::vector<uint32_t> seen(64);
  const auto body = [&](const grid::Thread& thread, void* shared) {
    auto* slots = static_cast<uint32_t*>(shared);
    slots[thread.thread()] = thread.thread() + 1;
    if (barrier) thread.Sync();
    seen[thread.thread()] = slots[(thread.thread() + 1) % thread.threads()];
  };
  CHECK(grid::Run(Machine::kFibres, {1, 1, 64}, seed, 64 * sizeof(uint32_t), body) ==
        grid::Verdict::kDone);
  return seen;
}

TEST_CASE("the grid finds a missing barrier") {
  std::set<std::vector<uint32_t>> with;
  std::set<std::vector<uint32_t>> without;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    with.insert(PassOn(seed, true));
    without.insert(PassOn(seed, false));
  }
  CHECK(with.size() == 1);
  CHECK(without.size() > 1);
}

TEST_CASE("the grid finds a barrier that not all threads reach") {
  const auto tile = [](const grid::Thread& thread, void*) {
    if (thread.thread() != 5) thread.Sync();
  };
  CHECK(grid::Run(Machine::kFibres, {1, 1, 64}, 1, 0, tile) == grid::Verdict::kStuck);
  const auto half_a_warp = [](const grid::Thread& thread, void*) {
    if (thread.thread() < 16) thread.Exchange(1, 1);
  };
  CHECK(grid::Run(Machine::kFibres, {1, 1, 32}, 1, 0, half_a_warp) == grid::Verdict::kStuck);
}

}  // namespace
}  // namespace causeway::compression
