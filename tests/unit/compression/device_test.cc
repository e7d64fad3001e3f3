// The bodies of the CUDA kernels, run on fibres in seeded order, make the bytes, residuals and sums
// of the CPU reference over hostile and real inputs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "compression/device/bodies.h"
#include "compression/device/chunks.h"
#include "compression/device/scan.h"
#include "compression/vector.h"
#include "tests/unit/compression/device_support.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

using device_test::Encoded;
using device_test::Source;
using grid::Machine;

constexpr uint64_t kSeed = 20261130;

std::vector<samples::Sample> Inputs() {
  std::vector<samples::Sample> inputs = samples::HostileSamples();
  for (const char* name : {"delta_slice.f32", "gradient_slice.f32"}) {
    std::vector<float> values = samples::ReadSlice(name);
    values.resize(6001);
    inputs.push_back({name, values});
  }
  return inputs;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TEST_CASE("kernels encode to the bytes of the CPU") {
  uint64_t seed = kSeed;
  for (const samples::Sample& input : Inputs()) {
    // Every type of snapshot and residual in turn.
    const DType dtypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};
    const DType dtype = dtypes[seed % 3];
    const DType residual = seed % 2 == 0 ? DType::kBf16 : DType::kFp32;
    for (const CodecSpec& spec : device_test::SpecsWithKernels()) {
      CAPTURE(input.name, spec.ToString(), seed, static_cast<int>(dtype));
      const Source plain = device_test::PlainSource(input.values);
      CHECK(device_test::EncodeOnGrid(spec, plain, Machine::kFibres, seed) ==
            device_test::EncodeOnCpu(spec, plain));
      const Source full = device_test::FullSource(input.values, dtype, residual);
      CHECK(device_test::EncodeOnGrid(spec, full, Machine::kFibres, seed + 1) ==
            device_test::EncodeOnCpu(spec, full));
    }
    ++seed;
  }
}

TEST_CASE("kernels sum contributions to the bits of the CPU") {
  uint64_t seed = kSeed;
  for (const samples::Sample& input : Inputs()) {
    for (const CodecSpec& spec : device_test::SpecsWithKernels()) {
      CAPTURE(input.name, spec.ToString(), seed);
      const auto n = static_cast<uint32_t>(input.values.size());
      const std::vector<Encoded> sources = {
          device_test::EncodeOnCpu(spec, device_test::PlainSource(input.values)),
          device_test::EncodeOnCpu(spec, device_test::PlainSource(samples::Noise(n, 3)))};
      const std::vector<float> weights = {-1.7f, 3.0f};
      CHECK(SameBits(
          device_test::CombineOnGrid(spec, sources, weights, {}, 0.5f, n, Machine::kFibres, seed),
          device_test::CombineOnCpu(sources, weights, {}, 0.5f, n)));
      // Hostile sums, too.
      CHECK(SameBits(device_test::CombineOnGrid(spec, sources, weights, input.values, 1 / 3.0f, n,
                                                Machine::kFibres, seed + 1),
                     device_test::CombineOnCpu(sources, weights, input.values, 1 / 3.0f, n)));
    }
    ++seed;
  }
}

TEST_CASE("a batch of chunks with a partial last one") {
  const std::vector<float> values = samples::Noise(kChunkElements + 4097, 11);
  for (const char* text : {"int4:b64:ef", "sign", "bf16"}) {
    const CodecSpec spec = CodecSpec::Parse(text).value();
    CAPTURE(text);
    const Source source = device_test::FullSource(values, DType::kBf16, DType::kBf16);
    const Encoded grid = device_test::EncodeOnGrid(spec, source, Machine::kFibres, kSeed);
    CHECK(grid == device_test::EncodeOnCpu(spec, source));
    const auto n = static_cast<uint32_t>(values.size());
    CHECK(SameBits(
        device_test::CombineOnGrid(spec, {grid}, {1.0f}, {}, 1.0f, n, Machine::kFibres, kSeed),
        device_test::CombineOnCpu({grid}, {1.0f}, {}, 1.0f, n)));
  }
}

TEST_CASE("the base counts as the trainer holds it") {
  const CodecSpec spec = CodecSpec::Parse("int8").value();
  for (DType dtype : {DType::kBf16, DType::kFp16}) {
    Source source = device_test::FullSource(samples::Noise(3000, 4), dtype, DType::kBf16);
    const Encoded grid = device_test::EncodeOnGrid(spec, source, Machine::kFibres, kSeed, true);
    std::vector<uint16_t> cast(source.base.size());
    CastFromFp32(source.base.data(), cast.size(), dtype, cast.data());
    CastToFp32(cast.data(), cast.size(), dtype, source.base.data());
    CHECK(grid == device_test::EncodeOnCpu(spec, source));
  }
}

// The first Inf or NaN of `values` held as dtype, by the kernel body.
size_t ScanOnGrid(const std::vector<float>& values, DType dtype, uint64_t seed) {
  std::vector<uint8_t> bytes(values.size() * DTypeBytes(dtype));
  CastFromFp32(values.data(), values.size(), dtype, bytes.data());
  const device_test::Exact<uint8_t> data(bytes);
  const uint32_t chunks = device::ChunksOf(values.size());
  const device_test::Exact<uint32_t> found(std::vector<uint32_t>(chunks, 0));
  const device::ScanBatch batch{data.data(), values.size(), dtype, found.data()};
  const uint32_t tiles = device::TilesOfChunk(0, values.size());
  const grid::Verdict verdict =
      grid::Run(Machine::kFibres, {tiles, chunks, 256}, seed, 0,
                [&](const grid::Thread& thread, void*) { device::Scan(thread, batch); });
  REQUIRE(verdict == grid::Verdict::kDone);
  for (uint32_t c = 0; c < chunks; ++c) {
    const size_t first = size_t{c} * kChunkElements;
    const size_t n = std::min<size_t>(kChunkElements, values.size() - first);
    if (found.data()[c] != 0) return first + n - found.data()[c];
  }
  return values.size();
}

TEST_CASE("the scan finds the first value that is no number") {
  std::vector<samples::Sample> inputs = Inputs();
  std::vector<float> late = samples::Noise(kChunkElements + 3000, 1);
  late[kChunkElements + 2999] = INFINITY;
  inputs.push_back({"in the last chunk", late});
  late[kChunkElements - 1] = -NAN;
  inputs.push_back({"at the end of the first", late});
  for (const samples::Sample& input : inputs) {
    for (DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      CAPTURE(input.name, static_cast<int>(dtype));
      std::vector<float> held(input.values.size());
      std::vector<uint32_t> cast(held.size());  // room for any dtype
      CastFromFp32(input.values.data(), held.size(), dtype, cast.data());
      CastToFp32(cast.data(), held.size(), dtype, held.data());
      CHECK(ScanOnGrid(input.values, dtype, kSeed) == FirstNonFinite(held));
    }
  }
}

TEST_CASE("codecs without kernels are named") {
  for (const char* text : {"2bit", "topk", "btopk", "cosine", "patch", "bf16x", "fp32x"}) {
    CHECK_FALSE(device::HasKernels(CodecSpec::Parse(text).value()));
  }
  for (const char* text : {"int8", "int4:b256", "nf4", "fp8", "mxfp4", "bf16", "sign"}) {
    CHECK(device::HasKernels(CodecSpec::Parse(text).value()));
  }
}

}  // namespace
}  // namespace causeway::compression
