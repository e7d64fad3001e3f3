// What a gateway does on a GPU: encodes contributions that lie in device memory, and combines
// chunks. The bytes are those of compression/codec.h, whatever computes them.
//
// Any thread: the daemon's workers call it, several at once; each call waits for its own work and
// no other's. Errors: UNAVAILABLE when the device or its driver fails, with the driver's words;
// what was to be written is undefined then. Does not: choose what runs on a device (choice.h), or
// hold what trainers and rounds own.
#ifndef CAUSEWAY_DAEMON_GPU_GPU_CODEC_H_
#define CAUSEWAY_DAEMON_GPU_GPU_CODEC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/codec.h"

namespace causeway::gpu {

// Memory of the device. The address is the device's: the host never follows it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  virtual uint64_t size() const = 0;
};

using Uuid = std::array<uint8_t, 16>;

// An allocation of another process. Whether it is what it says is tried, not believed.
struct SharedAllocation {
  enum class Kind {
    kVmm,  // cuMemCreate, exported as a POSIX descriptor (trainer's Share)
    kIpc,  // cudaIpcGetMemHandle
  };
  Kind kind = Kind::kVmm;
  int descriptor = -1;            // kVmm; borrowed
  std::array<uint8_t, 64> ipc{};  // kIpc: the handle's bytes
  uint64_t bytes = 0;
  Uuid device{};  // that it lies on
};

struct EncodeRequest {
  compression::CodecSpec codec;
  uint32_t n = 0;  // elements, at most a chunk
  uint32_t seed = 0;
  const void* snapshot = nullptr;  // in device memory, aligned to 16 bytes
  compression::DType snapshot_dtype = compression::DType::kFp32;
  // In host memory, n elements each. The base is the value itself: it counts as cast to the
  // snapshot's dtype.
  const float* base = nullptr;        // null: the snapshot itself is encoded
  const void* residual_in = nullptr;  // null: zero
  void* residual_out = nullptr;       // null: not wanted
  compression::DType residual_dtype = compression::DType::kBf16;  // or kFp32, of both
};

struct Contribution {
  absl::Span<const uint8_t> chunk;  // checked, not packed
  float weight = 1.0f;
};

class GpuCodec {
 public:
  virtual ~GpuCodec() = default;

  virtual std::string Name() const = 0;  // for the log: model, memory, driver
  virtual Uuid uuid() const = 0;
  // False: the CPU encodes and combines chunks of this codec.
  virtual bool Supports(const compression::CodecSpec& codec) const = 0;

  // Zeroed. RESOURCE_EXHAUSTED when the device is full.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(uint64_t bytes) = 0;
  // INVALID_ARGUMENT when the allocation is another device's, or smaller than it says.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const SharedAllocation& shared) = 0;

  // One chunk, byte for byte what compression::EncodeChunk makes; returns its size.
  virtual absl::StatusOr<size_t> EncodeChunk(const EncodeRequest& request, absl::Span<uint8_t> out,
                                             compression::EncodeStats* stats) = 0;
  // out = (sum of weight x decoded, in the order given, from 0) x scale: what DecodeAccumulate for
  // each, then ScaleVector make. `out` holds the chunk's elements.
  virtual absl::Status Combine(const compression::CodecSpec& codec,
                               absl::Span<const Contribution> contributions, float scale,
                               absl::Span<float> out) = 0;
  // Index of the first Inf or NaN, or `elements`.
  virtual absl::StatusOr<uint64_t> FirstNonFinite(const void* data, compression::DType dtype,
                                                  uint64_t elements) = 0;
  virtual absl::Status CopyToHost(const void* from, uint64_t bytes, void* to) = 0;
};

}  // namespace causeway::gpu

#endif  // CAUSEWAY_DAEMON_GPU_GPU_CODEC_H_
