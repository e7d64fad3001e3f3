// Inputs for the codec tests: hostile ones, random ones, slices of real deltas and gradients.
#ifndef CAUSEWAY_TESTS_UNIT_COMPRESSION_SAMPLES_H_
#define CAUSEWAY_TESTS_UNIT_COMPRESSION_SAMPLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compression/codec.h"

namespace causeway::compression::samples {

struct Sample {
  std::string name;
  std::vector<float> values;
};

// A small deterministic generator (splitmix64), the same on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  double Uniform();  // [0, 1)
  double Normal();   // sum of uniforms: bell-shaped, no libm

 private:
  uint64_t state_;
};

// n bell-shaped values whose spread changes from block to block, as real deltas' does.
std::vector<float> Noise(uint32_t n, uint64_t seed, double spread = 1e-3);

// Everything that once broke a codec somewhere: NaN, Inf, subnormals, huge, tiny, all-negative,
// constant, zeros, one element, lengths around block and tile borders.
std::vector<Sample> HostileSamples();

// tests/data/NAME as fp32.
std::vector<float> ReadSlice(const std::string& name);

// All codec specs that the tests cover.
std::vector<CodecSpec> AllSpecs();

// Encodes with the active unit and no residual; the test fails if the spec is invalid.
std::vector<uint8_t> Encode(const CodecSpec& spec, const std::vector<float>& values,
                            EncodeStats* stats = nullptr);
std::vector<float> Decode(const std::vector<uint8_t>& bytes, size_t n);

// sqrt(sum (a-b)^2 / sum a^2)
double RelativeL2(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace causeway::compression::samples

#endif  // CAUSEWAY_TESTS_UNIT_COMPRESSION_SAMPLES_H_
