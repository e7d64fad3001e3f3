// Error of every codec on a raw fp32 file: one shot, and the sum of ten rounds with and without
// error feedback. The ten rounds send the same values scaled by ten fixed factors between 0.5
// and 1.5: deltas of one run resemble each other, which is the hard case for a sum without
// feedback. --shapes 256x192,192,...: the tensors that the values are, for lowrank, which otherwise
// takes each chunk for one matrix.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_split.h"
#include "compression/codec.h"
#include "compression/low_rank.h"
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

struct Tensor {
  size_t elements;
  size_t columns;  // 0: no matrix
};

std::vector<Tensor> ReadShapes(const std::string& text) {
  std::vector<Tensor> tensors;
  for (absl::string_view shape : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    Tensor tensor = {1, 0};
    for (absl::string_view side : absl::StrSplit(shape, 'x')) {
      const size_t length = std::stoul(std::string(side));
      tensor.columns = tensor.elements == 1 ? 0 : std::max<size_t>(tensor.columns, 1) * length;
      tensor.elements *= length;
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

// The pieces of the chunk of n values that begins at `begin`.
std::vector<compression::MatrixPiece> PiecesOf(const std::vector<Tensor>& tensors, size_t begin,
                                               size_t n, uint32_t rank) {
  std::vector<compression::MatrixPiece> pieces;
  size_t first = 0;
  for (const Tensor& tensor : tensors) {
    size_t from = std::max(begin, first);
    const size_t to = std::min(begin + n, first + tensor.elements);
    if (from < to && tensor.columns != 0) {
      const size_t lead =
          std::min((tensor.columns - (from - first) % tensor.columns) % tensor.columns, to - from);
      if (lead != 0) pieces.push_back({static_cast<uint32_t>(lead), 0});
      from += lead;
    }
    if (from < to) {
      pieces.push_back(compression::PieceOf(static_cast<uint32_t>(to - from),
                                            static_cast<uint32_t>(tensor.columns), rank));
    }
    first += tensor.elements;
  }
  return pieces;
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
size_t Exchange(const CodecSpec& spec, const std::vector<Tensor>& tensors,
                const std::vector<float>& values, std::vector<uint16_t>* residual,
                std::vector<std::vector<uint16_t>>* warm, std::vector<float>* acc) {
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
    std::vector<compression::MatrixPiece> pieces;
    if (spec.kind == compression::CodecKind::kLowRank) {
      pieces = PiecesOf(tensors, begin, input.n, spec.rank);
      if (pieces.empty()) pieces = {compression::PieceOf(input.n, 0, spec.rank)};
      input.pieces = pieces;
      std::vector<uint16_t>& own = (*warm)[begin / kChunkElements];
      own.resize(compression::WarmElements(spec.rank, pieces));
      input.warm = own.data();
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

double SumOfRounds(const CodecSpec& spec, const std::vector<Tensor>& tensors,
                   const std::vector<float>& values, bool feedback) {
  std::vector<std::vector<uint16_t>> warm(values.size() / kChunkElements + 1);
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
    Exchange(spec, tensors, scaled, feedback ? &residual : nullptr, &warm, &acc);
  }
  for (size_t i = 0; i < values.size(); ++i) truth[i] = static_cast<float>(exact[i]);
  return Compare(truth, acc).relative_l2;
}

int Main(int argc, char** argv) {
  auto options = ReadOptions(argc, argv, {"file", "json", "codecs", "shapes"});
  if (options.count("file") == 0) {
    std::fprintf(stderr, "--file F.f32 is missing: raw little-endian fp32 values\n");
    return 2;
  }
  const std::vector<float> values = ReadFile(options["file"]);
  const std::vector<Tensor> tensors = ReadShapes(options["shapes"]);
  std::string codecs = options.count("codecs") != 0
                           ? options["codecs"]
                           : "fp32,bf16,fp16,int8,int8:sr,fp8,int4,int4:b128,int4:b256,int4:sr,nf4,"
                             "mxfp4,e3m0,2bit,cosine,sign,topk:k100,btopk,lowrank:r4,lowrank:r16";
  JsonRows rows;
  for (absl::string_view codec : absl::StrSplit(codecs, ',')) {
    auto spec = CodecSpec::Parse(codec);
    if (!spec.ok()) {
      std::fprintf(stderr, "%s\n", std::string(spec.status().message()).c_str());
      return 2;
    }
    std::vector<float> decoded(values.size());
    std::vector<std::vector<uint16_t>> warm(values.size() / kChunkElements + 1);
    size_t sent = Exchange(*spec, tensors, values, nullptr, &warm, &decoded);
    Comparison once = Compare(values, decoded);
    double bits = static_cast<double>(sent) * 8 / static_cast<double>(values.size());
    double without = SumOfRounds(*spec, tensors, values, false);
    double with = spec->stochastic ? without : SumOfRounds(*spec, tensors, values, true);
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
