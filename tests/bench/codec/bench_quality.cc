// Error of every codec on a raw fp32 file: one shot, and the sum of ten rounds with and without
// error feedback. The ten rounds send the same values scaled by ten fixed factors between 0.5
// and 1.5: deltas of one run resemble each other, which is the hard case for a sum without
// feedback.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_split.h"
#include "compression/codec.h"
#include "tests/bench/codec/bench_support.h"

namespace causeway::bench {
namespace {

using compression::CodecSpec;
using compression::EncodeInput;
using compression::EncodeStats;
using compression::kChunkElements;

constexpr int kRounds = 10;

std::vector<float> ReadFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  std::vector<float> values;
  std::vector<float> piece(kChunkElements);
  size_t got = 0;
  while ((got = std::fread(piece.data(), sizeof(float), piece.size(), file)) > 0) {
    values.insert(values.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(got));
  }
  std::fclose(file);
  return values;
}

struct Comparison {
  double relative_l2;
  double cosine;
};

Comparison Compare(const std::vector<float>& truth, const std::vector<float>& seen) {
  double error = 0, a = 0, b = 0, dot = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    double x = truth[i], y = seen[i];
    error += (x - y) * (x - y);
    a += x * x;
    b += y * y;
    dot += x * y;
  }
  return {a == 0 ? 0 : std::sqrt(error / a), a == 0 || b == 0 ? 1 : dot / std::sqrt(a * b)};
}

// Adds decode(encode(values [+ residual])) to acc, chunk by chunk; returns the bytes sent.
size_t Exchange(const CodecSpec& spec, const std::vector<float>& values,
                std::vector<uint16_t>* residual, std::vector<float>* acc) {
  size_t sent = 0;
  std::vector<uint8_t> bytes(compression::EncodedSizeMax(spec, kChunkElements));
  std::vector<uint16_t> next(kChunkElements);
  for (size_t begin = 0; begin < values.size(); begin += kChunkElements) {
    EncodeInput input;
    input.snapshot = values.data() + begin;
    input.n = static_cast<uint32_t>(std::min<size_t>(kChunkElements, values.size() - begin));
    input.seed = spec.stochastic ? static_cast<uint32_t>(begin + 1) : 0;
    if (residual != nullptr) {
      input.residual_in = residual->data() + begin;
      input.residual_out = next.data();
    }
    EncodeStats stats;
    size_t size = EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats);
    sent += size;
    compression::DecodeAccumulate(absl::MakeConstSpan(bytes.data(), size), 1.0f,
                                  acc->data() + begin);
    if (residual != nullptr) {
      std::copy(next.begin(), next.begin() + input.n,
                residual->begin() + static_cast<ptrdiff_t>(begin));
    }
  }
  return sent;
}

double SumOfRounds(const CodecSpec& spec, const std::vector<float>& values, bool feedback) {
  std::vector<uint16_t> residual(values.size());
  std::vector<float> acc(values.size()), truth(values.size());
  std::vector<double> exact(values.size());
  std::vector<float> scaled(values.size());
  for (int round = 0; round < kRounds; ++round) {
    float factor = 0.5f + static_cast<float>((round * 7) % kRounds) / kRounds;
    for (size_t i = 0; i < values.size(); ++i) {
      scaled[i] = values[i] * factor;
      exact[i] += scaled[i];
    }
    Exchange(spec, scaled, feedback ? &residual : nullptr, &acc);
  }
  for (size_t i = 0; i < values.size(); ++i) truth[i] = static_cast<float>(exact[i]);
  return Compare(truth, acc).relative_l2;
}

int Main(int argc, char** argv) {
  auto options = ReadOptions(argc, argv, {"file", "json", "codecs"});
  if (options.count("file") == 0) {
    std::fprintf(stderr, "--file F.f32 is missing: raw little-endian fp32 values\n");
    return 2;
  }
  const std::vector<float> values = ReadFile(options["file"]);
  std::string codecs = options.count("codecs") != 0
                           ? options["codecs"]
                           : "fp32,bf16,fp16,int8,int8:sr,fp8,int4,int4:b128,int4:b256,int4:sr,nf4,"
                             "mxfp4,e3m0,2bit,cosine,sign,topk:k100,btopk";
  JsonRows rows;
  for (absl::string_view codec : absl::StrSplit(codecs, ',')) {
    auto spec = CodecSpec::Parse(codec);
    if (!spec.ok()) {
      std::fprintf(stderr, "%s\n", std::string(spec.status().message()).c_str());
      return 2;
    }
    std::vector<float> decoded(values.size());
    size_t sent = Exchange(*spec, values, nullptr, &decoded);
    Comparison once = Compare(values, decoded);
    double bits = static_cast<double>(sent) * 8 / static_cast<double>(values.size());
    double without = SumOfRounds(*spec, values, false);
    double with = spec->stochastic ? without : SumOfRounds(*spec, values, true);
    rows.Begin();
    rows.Add("codec", spec->ToString());
    rows.Add("bits_per_element", bits);
    rows.Add("relative_l2", once.relative_l2);
    rows.Add("cosine", once.cosine);
    rows.Add("sum10_relative_l2", without);
    rows.Add("sum10_relative_l2_feedback", with);
    std::fprintf(stderr,
                 "%-12s %7.3f bits  relative L2 %.5f  cosine %.5f  sum of ten %.5f -> %.5f\n",
                 spec->ToString().c_str(), bits, once.relative_l2, once.cosine, without, with);
  }
  rows.Write(options.count("json") != 0 ? options["json"] : "");
  return 0;
}

}  // namespace
}  // namespace causeway::bench

int main(int argc, char** argv) { return causeway::bench::Main(argc, argv); }
