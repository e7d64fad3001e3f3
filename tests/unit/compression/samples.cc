// Builds the inputs of the codec tests.
#include "tests/unit/compression/samples.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "compression/block_math.h"

namespace causeway::compression::samples {

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15ull;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

double Random::Normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += Uniform();
  return sum;
}

std::vector<float> Noise(uint32_t n, uint64_t seed, double spread) {
  Random random(seed);
  std::vector<float> values(n);
  double local = spread;
  for (uint32_t i = 0; i < n; ++i) {
    if (i % 192 == 0) local = spread * (0.1 + 4 * random.Uniform());
    values[i] = static_cast<float>(local * random.Normal());
  }
  return values;
}

std::vector<Sample> HostileSamples() {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Sample> samples;
  samples.push_back({"empty", {}});
  samples.push_back({"one", {3.25f}});
  samples.push_back({"one negative", {-1e-3f}});
  samples.push_back({"one zero", {0.0f}});
  samples.push_back({"one minus zero", {-0.0f}});
  samples.push_back({"one nan", {nan}});
  for (uint32_t n : {2u,   31u,  32u,  33u,  63u,   64u,   65u,   127u,  128u,  129u,
                     255u, 256u, 257u, 511u, 1000u, 4095u, 4096u, 4097u, 8191u, 10007u}) {
    samples.push_back({"noise " + std::to_string(n), Noise(n, n)});
  }
  samples.push_back({"zeros", std::vector<float>(777, 0.0f)});
  samples.push_back({"constant", std::vector<float>(777, 0.1f)});
  samples.push_back({"subnormal", std::vector<float>(300, 1e-41f)});
  samples.push_back({"below the tiny limit", std::vector<float>(300, 0x1.8p-101f)});
  samples.push_back({"at the tiny limit", std::vector<float>(300, -0x1p-100f)});
  samples.push_back({"largest finite", std::vector<float>(300, std::numeric_limits<float>::max())});
  samples.push_back({"below the huge limit", std::vector<float>(300, math::FromBits(0x7effffffu))});
  samples.push_back({"fp16 overflow", std::vector<float>(300, -65519.9f)});
  std::vector<float> negative = Noise(1300, 5);
  for (float& x : negative) x = -std::fabs(x) - 1e-6f;
  samples.push_back({"all negative", negative});
  std::vector<float> mixed = Noise(2500, 6);
  mixed[3] = nan;
  mixed[700] = inf;
  mixed[1300] = -inf;
  mixed[1301] = math::FromBits(0xff800001u);  // signalling, negative, with a payload
  mixed[2499] = math::FromBits(0x7fffffffu);
  samples.push_back({"nan and infinities", mixed});
  std::vector<float> wide(3000);
  Random random(7);
  for (float& x : wide) x = math::FromBits(static_cast<uint32_t>(random.Next()));
  samples.push_back({"random bits", wide});
  for (float& x : wide) {
    x = math::FromBits((static_cast<uint32_t>(random.Next()) & 0x80ffffffu) |
                       (100u + static_cast<uint32_t>(random.Next() % 40)) << 23);
  }
  samples.push_back({"wide range", wide});
  std::vector<float> halves(2048);  // ties of every rounding
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = (static_cast<int>(i % 255) - 127) * 0.5f;
  samples.push_back({"halves", halves});
  return samples;
}

std::vector<float> ReadSlice(const std::string& name) {
  const char* elsewhere = std::getenv("CAUSEWAY_TEST_DATA");
  const std::string path =
      std::string(elsewhere != nullptr ? elsewhere : CAUSEWAY_TEST_DATA) + "/" + name;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot open %s\n", path.c_str());
    std::abort();
  }
  std::vector<float> values(1u << 18);
  values.resize(std::fread(values.data(), sizeof(float), values.size(), file));
  std::fclose(file);
  return values;
}

std::vector<CodecSpec> AllSpecs() {
  std::vector<CodecSpec> specs;
  for (const char* text : {"fp32",       "bf16",       "fp16",
                           "int8",       "int8:b64",   "int8:b32",
                           "int8:b4096", "int8:sr",    "int4",
                           "int4:b32",   "int4:b128",  "int4:b256",
                           "int4:b1024", "int4:sr",    "nf4",
                           "nf4:b32",    "nf4:b256",   "fp8",
                           "fp8:b64",    "mxfp4",      "mxfp4:b64",
                           "e3m0",       "e3m0:b128",  "2bit",
                           "2bit:b32",   "2bit:b1024", "sign",
                           "sign:b32",   "topk",       "topk:k3000:v2",
                           "topk:k9000", "btopk",      "btopk:b128:k32:v4",
                           "bf16x",      "fp32x",      "cosine",
                           "cosine:b64", "patch",      "sign:b2048",
                           "lowrank",    "lowrank:r1", "lowrank:r16"}) {
    specs.push_back(CodecSpec::Parse(text).value());
  }
  return specs;
}

std::vector<uint8_t> Encode(const CodecSpec& spec, const std::vector<float>& values,
                            EncodeStats* stats) {
  EncodeStats unused;
  EncodeInput input;
  input.snapshot = values.data();
  input.n = static_cast<uint32_t>(values.size());
  input.seed = spec.stochastic ? 99 : 0;
  std::vector<uint8_t> bytes(EncodedSizeMax(spec, input.n));
  bytes.resize(EncodeChunk(spec, input, absl::MakeSpan(bytes), stats == nullptr ? &unused : stats));
  return bytes;
}

std::vector<float> Decode(const std::vector<uint8_t>& bytes, size_t n) {
  std::vector<float> out(n);
  DecodeChunk(bytes, out.data());
  return out;
}

double RelativeL2(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    error += d * d;
    norm += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  }
  return norm == 0 ? 0 : std::sqrt(error / norm);
}

}  // namespace causeway::compression::samples
