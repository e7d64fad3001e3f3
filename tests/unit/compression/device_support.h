// Encodes and sums with the kernel bodies on a simulated grid, as a device would.
#ifndef CAUSEWAY_TESTS_UNIT_COMPRESSION_DEVICE_SUPPORT_H_
#define CAUSEWAY_TESTS_UNIT_COMPRESSION_DEVICE_SUPPORT_H_

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "compression/device/batch.h"
#include "tests/unit/compression/grid/grid.h"

namespace causeway::compression::device_test {

// Exactly `count` elements, aligned as a device's allocations are: an access beyond either end is a
// sanitizer's finding.
template <typename T>
class Exact {
 public:
  explicit Exact(size_t count) : count_(count) {
    void* data = nullptr;
    if (posix_memalign(&data, 64, count * sizeof(T)) != 0) std::abort();
    data_.reset(static_cast<T*>(data));
    std::memset(data, 0xa5, count * sizeof(T));
  }
  explicit Exact(const std::vector<T>& values) : Exact(values.size()) {
    if (!values.empty()) std::memcpy(data_.get(), values.data(), values.size() * sizeof(T));
  }
  T* data() const { return data_.get(); }
  size_t size() const { return count_; }
  std::vector<T> ToVector() const { return std::vector<T>(data(), data() + count_); }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  size_t count_;
  std::unique_ptr<T, Free> data_;
};

// What a fragment's owner holds, whatever encodes it.
struct Source {
  std::vector<float> base;        // empty: none
  std::vector<uint8_t> snapshot;  // elements of `dtype`
  DType dtype = DType::kFp32;
  std::vector<uint8_t> residual_in;  // elements of `residual_dtype`; empty: none
  DType residual_dtype = DType::kBf16;
  bool keep_residual = false;
  uint64_t elements = 0;
  std::vector<uint32_t> seeds;  // by chunk
};

struct Encoded {
  std::vector<std::vector<uint8_t>> chunks;
  std::vector<uint8_t> residual;
  std::vector<EncodeStats> stats;
};
bool operator==(const Encoded& a, const Encoded& b);

// Where the kernel sees a source's memory.
struct SourcePointers {
  const float* base;  // ignored where the source has none, as the residuals
  const void* snapshot;
  const void* residual_in;
  void* residual_out;
  uint8_t* chunks;
};
device::EncodeBatch BatchOf(const CodecSpec& spec, const Source& source, const SourcePointers& at,
                            bool cast_base);

// The generic CPU unit, chunk by chunk.
Encoded EncodeOnCpu(const CodecSpec& spec, const Source& source);
// One batch of the kernel body. `cast_base`: see EncodeBatch.
Encoded EncodeOnGrid(const CodecSpec& spec, const Source& source, grid::Machine machine,
                     uint64_t seed, bool cast_base = false);

// Sums of several contributions, chunk by chunk, from `sum` on (empty: from zero), then scaled.
std::vector<float> CombineOnCpu(const std::vector<Encoded>& sources,
                                const std::vector<float>& weights, std::vector<float> sum,
                                float scale, uint64_t elements);
std::vector<float> CombineOnGrid(const CodecSpec& spec, const std::vector<Encoded>& sources,
                                 const std::vector<float>& weights, const std::vector<float>& sum,
                                 float scale, uint64_t elements, grid::Machine machine,
                                 uint64_t seed);

// The specs that have kernels, of samples::AllSpecs().
std::vector<CodecSpec> SpecsWithKernels();

// A delta with a residual: base, snapshot of `dtype`, residual, all made from `values`.
Source FullSource(const std::vector<float>& values, DType dtype, DType residual_dtype);
Source PlainSource(const std::vector<float>& values);

}  // namespace causeway::compression::device_test

#endif  // CAUSEWAY_TESTS_UNIT_COMPRESSION_DEVICE_SUPPORT_H_
