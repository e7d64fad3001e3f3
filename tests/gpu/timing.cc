// Rates of the kernels beside a copy within device memory, and of the way from device memory to
// packed bytes in host memory and back, through daemon/gpu.
//
// `gb_per_s` counts fp32 input (or summed output); `traffic_gb_per_s` the bytes that must be read
// and written; `of_memcpy` is that over the copy's own traffic.
#include <algorithm>
#include <functional>
#include <string>
#include <thread>

#include "compression/device/chunks.h"
#include "compression/device/launch.h"
#include "daemon/gpu/open.h"
#include "tests/bench/codec/bench_support.h"
#include "tests/gpu/device.h"
#include "tests/unit/compression/samples.h"

namespace causeway::gpu_check {

using compression::CodecSpec;
using compression::kChunkElements;
namespace device = compression::device;

namespace {

constexpr uint32_t kChunks = 256;  // 256 MiB of fp32: well beyond any cache
constexpr int kRepeats = 10;
constexpr size_t kElements = size_t{kChunks} * kChunkElements;
constexpr size_t kBytes = kElements * sizeof(float);

class Timing {
 public:
  Timing()
      : values_(kBytes),
        base_(kBytes),
        residual_in_(kElements * 2),
        residual_out_(kElements * 2),
        packed_{DeviceBuffer(kBytes + kChunks * 4096), DeviceBuffer(kBytes + kChunks * 4096)} {
    const std::vector<float> noise = compression::samples::Noise(kChunkElements, 1);
    const std::vector<float> other = compression::samples::Noise(kChunkElements, 2);
    for (uint32_t c = 0; c < kChunks; ++c) {
      const size_t bytes = kChunkElements * sizeof(float);
      Must(cudaMemcpy(values_.as() + c * bytes, noise.data(), bytes, cudaMemcpyHostToDevice), "");
      Must(cudaMemcpy(base_.as() + c * bytes, other.data(), bytes, cudaMemcpyHostToDevice), "");
    }
    Must(cudaMemset(residual_in_.as(), 0, residual_in_.size()), "");
    Must(cudaEventCreate(&begin_), "event");
    Must(cudaEventCreate(&end_), "event");
    Must(cudaStreamCreate(&stream_), "stream");
    const double seconds = Seconds([&] {
      Must(cudaMemcpyAsync(base_.as(), values_.as(), kBytes, cudaMemcpyDeviceToDevice, stream_),
           "copy");
    });
    copy_gb_per_s_ = 2 * static_cast<double>(kBytes) / seconds * 1e-9;
    std::printf("device memcpy: %.0f GB/s read and written\n", copy_gb_per_s_);
  }

  void Run(const char* json) {
    for (const char* text :
         {"int8", "int4", "nf4", "fp8", "mxfp4", "e3m0", "sign", "bf16", "fp16", "fp32"}) {
      Kernels(CodecSpec::Parse(text).value());
    }
    for (const char* text : {"int8:ef", "int4:ef"}) {
      for (int threads : {1, 2, 4, 8}) Daemon(CodecSpec::Parse(text).value(), threads);
    }
    if (*json != 0) rows_.Write(json);
  }

 private:
  // The best of several.
  double Seconds(const std::function<void()>& launch) {
    double best = 1e9;
    for (int i = 0; i <= kRepeats; ++i) {
      Must(cudaEventRecord(begin_, stream_), "record");
      launch();
      Must(cudaEventRecord(end_, stream_), "record");
      Must(cudaEventSynchronize(end_), "kernel");
      float ms = 0;
      Must(cudaEventElapsedTime(&ms, begin_, end_), "time");
      if (i > 0) best = std::min(best, static_cast<double>(ms) * 1e-3);  // the first warms up
    }
    return best;
  }

  void Report(const CodecSpec& spec, const char* operation, double seconds, double traffic) {
    const double gb = static_cast<double>(kBytes) / seconds * 1e-9;
    const double gb_moved = traffic / seconds * 1e-9;
    rows_.Begin();
    rows_.Add("codec", spec.ToString());
    rows_.Add("operation", operation);
    rows_.Add("gb_per_s", gb);
    rows_.Add("traffic_gb_per_s", gb_moved);
    rows_.Add("memcpy_traffic_gb_per_s", copy_gb_per_s_);
    rows_.Add("of_memcpy", gb_moved / copy_gb_per_s_);
    std::printf("%-10s %-15s %7.0f GB/s of fp32 %7.0f GB/s moved  %5.2f of memcpy\n",
                spec.ToString().c_str(), operation, gb, gb_moved, gb_moved / copy_gb_per_s_);
  }

  void Encode(const CodecSpec& spec, const DeviceBuffer& out, bool feedback) {
    for (uint32_t c = 0; c < kChunks; c += device::kBatchChunksMax) {
      const uint32_t here = std::min(device::kBatchChunksMax, kChunks - c);
      device::EncodeBatch batch = device::EncodeBatchOf(spec, uint64_t{here} * kChunkElements);
      const size_t first = size_t{c} * kChunkElements;
      batch.snapshot = values_.as<float>() + first;
      if (feedback) {
        batch.base = base_.as<float>() + first;
        batch.residual_in = residual_in_.as<uint16_t>() + first;
        batch.residual_out = residual_out_.as<uint16_t>() + first;
        batch.residual_dtype = compression::DType::kBf16;
      }
      batch.chunks = out.as() + size_t{c} * batch.stride;
      Must(device::LaunchEncode(spec.kind, batch, stream_), "encode");
    }
  }

  void Combine(const CodecSpec& spec) {
    for (uint32_t c = 0; c < kChunks; c += device::kBatchChunksMax) {
      const uint32_t here = std::min(device::kBatchChunksMax, kChunks - c);
      device::CombineBatch batch = device::CombineBatchOf(spec, uint64_t{here} * kChunkElements);
      batch.sum = base_.as<float>() + size_t{c} * kChunkElements;
      batch.fresh = true;
      batch.scaled = true;
      batch.scale = 0.5f;
      batch.source_count = 2;
      for (int s = 0; s < 2; ++s) {
        batch.sources[s] = packed_[s].as() + size_t{c} * batch.stride;
        batch.weights[s] = 1.0f;
      }
      Must(device::LaunchCombine(spec.kind, batch, stream_), "combine");
    }
  }

  void Kernels(const CodecSpec& spec) {
    const double packed = static_cast<double>(kChunks) * device::ChunkStride(spec);
    const auto bytes = static_cast<double>(kBytes);
    Report(spec, "encode", Seconds([&] { Encode(spec, packed_[0], false); }), bytes + packed);
    Report(spec, "delta_feedback", Seconds([&] { Encode(spec, packed_[1], true); }),
           3 * bytes + packed);  // snapshot, base, two halves of a residual
    Report(spec, "combine_two", Seconds([&] { Combine(spec); }), bytes + 2 * packed);
  }

  // Snapshot on the device, all else in host memory; threads stand for the daemon's workers.
  void Daemon(const CodecSpec& spec, int threads) {
    auto budget = memory::Budget::Create(uint64_t{1} << 30);
    auto codec = gpu::Open(*budget->Open("gpu"));
    if (!codec.ok()) return;
    const std::vector<float> base = compression::samples::Noise(kChunkElements, 3);
    const auto work = [&](int thread) {
      std::vector<uint16_t> before(kChunkElements), after(kChunkElements);
      std::vector<uint8_t> out(compression::EncodedSizeMax(spec, kChunkElements));
      for (uint32_t c = static_cast<uint32_t>(thread); c < kChunks;
           c += static_cast<uint32_t>(threads)) {
        gpu::EncodeRequest request;
        request.codec = spec;
        request.n = kChunkElements;
        request.snapshot = values_.as<float>() + size_t{c} * kChunkElements;
        request.base = base.data();
        request.residual_in = before.data();
        request.residual_out = after.data();
        compression::EncodeStats stats;
        if (!(*codec)->EncodeChunk(request, absl::MakeSpan(out), &stats).ok()) std::exit(1);
      }
    };
    const double seconds = bench::BestSeconds(threads, 3, work);
    const double moved =
        2 * static_cast<double>(kBytes) + static_cast<double>(kChunks) * device::ChunkStride(spec);
    Report(spec, ("daemon_" + std::to_string(threads)).c_str(), seconds, moved);
  }

  DeviceBuffer values_;
  DeviceBuffer base_;
  DeviceBuffer residual_in_;
  DeviceBuffer residual_out_;
  DeviceBuffer packed_[2];
  cudaEvent_t begin_;
  cudaEvent_t end_;
  cudaStream_t stream_;
  double copy_gb_per_s_ = 0;
  bench::JsonRows rows_;
};

}  // namespace

void MeasureKernels(const char* json) { Timing().Run(json); }

}  // namespace causeway::gpu_check
