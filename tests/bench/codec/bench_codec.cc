// Speed of every codec in GB/s of fp32 input, beside memcpy and a read-only sum of the same run.
// Operations: encode; feedback (value plus residual in, residual out); delta_feedback (base -
// snapshot plus residual); decode; accumulate; check (what a receiver does first); pack and unpack
// (zstd, per fp32 byte). The bound of DRAM moves with the machine, so the figures to read are the
// ratio to memcpy and moved_gb_per_s: bytes that an operation must read and write, each once,
// beside memcpy's two for each byte.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_split.h"
#include "compression/codec_internal.h"
#include "compression/entropy.h"
#include "tests/bench/codec/bench_support.h"

namespace causeway::bench {
namespace {

using compression::CodecSpec;
using compression::EncodeInput;
using compression::EncodeStats;
using compression::kChunkElements;

struct Bench {
  explicit Bench(size_t chunks)
      : chunks(chunks),
        values(chunks * kChunkElements * sizeof(float)),
        other(values.size()),
        residual_in(values.size() / 2),
        residual_out(values.size() / 2),
        packed(values.size() + chunks * 4096) {
    uint64_t state = 1;
    for (size_t i = 0; i < chunks * kChunkElements; ++i) {
      double sum = -2;  // bell-shaped, so that codes have the entropy of real ones
      for (int k = 0; k < 4; ++k) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        sum += static_cast<double>(state >> 40) * 0x1p-24;
      }
      values.floats()[i] = static_cast<float>(sum * 1e-3);
    }
  }
  size_t chunks;
  Buffer values;
  Buffer other;
  Buffer residual_in;
  Buffer residual_out;
  Buffer packed;
};

// The chunks of one thread.
template <typename Work>
auto Split(const Bench& bench, int threads, Work work) {
  return [&bench, threads, work](int thread) {
    size_t begin = bench.chunks * static_cast<size_t>(thread) / static_cast<size_t>(threads);
    size_t end = bench.chunks * static_cast<size_t>(thread + 1) / static_cast<size_t>(threads);
    for (size_t c = begin; c < end; ++c) work(c, thread);
  };
}

volatile float g_sink;

float SumOf(const float* x, size_t n) {
  float lanes[64] = {};
  for (size_t i = 0; i < n; i += 64) {
    for (size_t l = 0; l < 64; ++l) lanes[l] += x[i + l];
  }
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

class Runner {
 public:
  Runner(Bench* bench, const compression::KernelTable& kernels, int threads, int repeats,
         JsonRows* rows)
      : b_(*bench), kernels_(kernels), threads_(threads), repeats_(repeats), rows_(rows) {
    Ceilings();
  }

  void Codec(const CodecSpec& spec) {
    spec_ = spec;
    sizes_.assign(b_.chunks, 0);
    coded_ = compression::BitsPerElement(spec) / 8;
    const size_t stride = compression::EncodedSizeMax(spec, kChunkElements);
    Encode("encode", stride, false, false);
    Encode("feedback", stride, true, false);
    Encode("delta_feedback", stride, true, true);
    Encode("encode", stride, false, false, false);  // bytes that the readers below expect
    Measure("check", coded_,
            [&](size_t c, int) { Require(CheckChunk(spec_, kChunkElements, Chunk(c, stride))); });
    Measure("decode", coded_ + 4, [&](size_t c, int) {
      DecodeChunkWith(kernels_, Chunk(c, stride), b_.other.floats() + c * kChunkElements);
    });
    Measure("accumulate", coded_ + 8, [&](size_t c, int) {
      DecodeAccumulateWith(kernels_, Chunk(c, stride), 0.5f,
                           b_.other.floats() + c * kChunkElements);
    });
  }

 private:
  static void Require(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    std::exit(1);
  }
  absl::Span<const uint8_t> Chunk(size_t c, size_t stride) const {
    return absl::MakeConstSpan(b_.packed.bytes() + c * stride, sizes_[c]);
  }
  double GbPerSecond(double seconds) const {
    return static_cast<double>(b_.values.size()) / seconds * 1e-9;
  }

  void Ceilings() {
    auto copy = Split(b_, threads_, [&](size_t c, int) {
      std::memcpy(b_.other.floats() + c * kChunkElements, b_.values.floats() + c * kChunkElements,
                  kChunkElements * sizeof(float));
    });
    auto sum = Split(b_, threads_, [&](size_t c, int) {
      g_sink = SumOf(b_.values.floats() + c * kChunkElements, kChunkElements);
    });
    memcpy_ = GbPerSecond(BestSeconds(threads_, repeats_, copy));
    read_ = GbPerSecond(BestSeconds(threads_, repeats_, sum));
  }

  template <typename Work>
  void Measure(const char* operation, double moved_per_element, Work work) {
    double rate = GbPerSecond(BestSeconds(threads_, repeats_, Split(b_, threads_, work)));
    rows_->Begin();
    rows_->Add("codec", spec_.ToString());
    rows_->Add("operation", operation);
    rows_->Add("unit", kernels_.name);
    rows_->Add("threads", threads_);
    rows_->Add("gb_per_s", rate);
    rows_->Add("memcpy_gb_per_s", memcpy_);
    rows_->Add("read_gb_per_s", read_);
    const double moved = rate * moved_per_element / 4;
    rows_->Add("moved_gb_per_s", moved);
    std::fprintf(stderr,
                 "%-12s %-15s %-7s %d thread(s) %6.2f GB/s  %5.2f x memcpy  %5.2f x read  moved "
                 "%6.2f GB/s  %5.2f x memcpy's\n",
                 spec_.ToString().c_str(), operation, kernels_.name, threads_, rate, rate / memcpy_,
                 rate / read_, moved, moved / (2 * memcpy_));
  }

  void Encode(const char* operation, size_t stride, bool feedback, bool delta,
              bool measured = true) {
    auto work = [this, stride, feedback, delta](size_t c, int) {
      EncodeInput input;
      input.base = delta ? b_.other.floats() + c * kChunkElements : nullptr;
      input.snapshot = b_.values.floats() + c * kChunkElements;
      input.residual_in = feedback ? b_.residual_in.halves() + c * kChunkElements : nullptr;
      input.residual_out = feedback ? b_.residual_out.halves() + c * kChunkElements : nullptr;
      input.n = kChunkElements;
      EncodeStats stats;
      sizes_[c] = EncodeChunkWith(kernels_, spec_, input,
                                  absl::MakeSpan(b_.packed.bytes() + c * stride, stride), &stats);
    };
    if (measured) {
      const double sources = delta ? 8 : 4;
      Measure(operation, sources + coded_ + (feedback ? 4 : 0), work);
    } else {
      Split(b_, 1, work)(0);
    }
  }

  Bench& b_;
  const compression::KernelTable& kernels_;
  int threads_;
  int repeats_;
  JsonRows* rows_;
  CodecSpec spec_;
  double coded_ = 0;           // bytes of an element
  std::vector<size_t> sizes_;  // of the encoded chunks
  double memcpy_ = 0;
  double read_ = 0;
};

const compression::KernelTable& UnitNamed(const std::string& name) {
  for (compression::Isa isa : compression::kIsas) {
    const compression::KernelTable* unit = compression::KernelsFor(isa);
    if (unit != nullptr && name == unit->name) return *unit;
  }
  if (name.empty()) return compression::ActiveKernels();
  std::fprintf(stderr, "this machine has no unit %s\n", name.c_str());
  std::exit(2);
}

int Main(int argc, char** argv) {
  auto options =
      ReadOptions(argc, argv, {"json", "megabytes", "codecs", "threads", "repeats", "unit"});
  auto text = [&](const char* name, const char* fallback) {
    return options.count(name) != 0 ? options[name] : std::string(fallback);
  };
  const size_t megabytes = static_cast<size_t>(std::stoul(text("megabytes", "256")));
  Bench bench(megabytes);  // a chunk is one MiB
  JsonRows rows;
  for (absl::string_view threads : absl::StrSplit(text("threads", "1,2"), ',')) {
    Runner runner(&bench, UnitNamed(text("unit", "")), std::stoi(std::string(threads)),
                  std::stoi(text("repeats", "5")), &rows);
    for (absl::string_view codec :
         absl::StrSplit(text("codecs",
                             "fp32,bf16,fp16,int8,int4,int4:b256,nf4,fp8,mxfp4,e3m0,2bit,cosine,"
                             "sign,topk:k100,btopk,lowrank:r4"),
                        ',')) {
      auto spec = CodecSpec::Parse(codec);
      if (!spec.ok()) {
        std::fprintf(stderr, "%s\n", std::string(spec.status().message()).c_str());
        return 2;
      }
      runner.Codec(*spec);
    }
  }
  rows.Write(text("json", ""));
  return 0;
}

}  // namespace
}  // namespace causeway::bench

int main(int argc, char** argv) { return causeway::bench::Main(argc, argv); }
