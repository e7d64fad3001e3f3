// The local endpoint of one run: what its trainers share with the daemon, and the encoding of it.
//
// Owns the snapshot segment (trainers write, we read), the values segment (we write, trainers read:
// the value of round r lies in slot r % 2), and the error-feedback residual, committed and pending,
// of each fragment. It knows nothing of peers, rounds in progress or the network, so that an agent
// on a trainer's host runs the same class and sends the packed chunks on.
//
// Life of a contribution:  Begin -> EncodeChunk for every chunk -> Commit (counted) or Drop (not
// counted). The caller retains the encoded bytes until then; a retry sends those, and never encodes
// again.
//
// Threads: confined to the owner's thread, save for what is marked "workers": those may run
// concurrently with each other, for distinct chunks or outputs, after the owner handed the work
// over and before it takes it back (the hand-over orders memory). Trainers may scribble in the
// snapshot at any time: values become undefined then, memory safety does not.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_ENDPOINT_H_
#define CAUSEWAY_DAEMON_ENDPOINT_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/codec.h"
#include "daemon/endpoint/correction.h"
#include "daemon/endpoint/device_snapshots.h"
#include "daemon/endpoint/matrices.h"
#include "daemon/endpoint/private_memory.h"
#include "daemon/endpoint/scratch.h"
#include "daemon/gpu/gpu_codec.h"
#include "daemon/loop/confined.h"
#include "daemon/memory/budget.h"
#include "daemon/memory/shared_memory.h"
#include "daemon/schema/layout.h"
#include "daemon/schema/schema.h"

namespace causeway::endpoint {

inline constexpr int64_t kNoRound = -1;

struct Options {
  std::string run;  // names the segments
  compression::CodecSpec codec;
  compression::DType residual = compression::DType::kBf16;  // or kFp32: how its residual is kept
  bool outer = true;          // false: gradients; the snapshot itself is encoded, there is no base
  uint32_t encoders_max = 8;  // EncodeChunk calls that may run at the same time
  Correction correction;      // of gradients alone, with topk or btopk and error feedback
};

struct EncodedChunk {
  // UNAVAILABLE: a device failed. The contribution cannot be completed, and the rest means nothing.
  absl::Status status;
  size_t bytes = 0;              // of `out` that are used
  uint64_t nonfinite = 0;        // values that are NaN, Inf or beyond 2^127
  std::string nonfinite_tensor;  // the first such value's tensor; empty: none, or padding
};

class LocalEndpoint {
 public:
  // Reserves and maps everything; residuals only where the codec has error feedback.
  // Clears every page of the segments, about 0.3 s a GiB, so large models are made on a worker; the
  // owner's thread is the first that calls another member. RESOURCE_EXHAUSTED names what does not
  // fit. The schema and layout are shared with sessions.
  static absl::StatusOr<std::unique_ptr<LocalEndpoint>> Create(
      std::shared_ptr<const schema::Schema> schema, std::shared_ptr<const schema::Layout> layout,
      Options options, std::shared_ptr<memory::Account> account);
  ~LocalEndpoint();
  LocalEndpoint(const LocalEndpoint&) = delete;
  LocalEndpoint& operator=(const LocalEndpoint&) = delete;

  const schema::Schema& schema() const { return *schema_; }
  const schema::Layout& layout() const { return *layout_; }
  const Options& options() const { return options_; }

  // To pass to trainers; owned here.
  int snapshot_descriptor() const { return snapshot_.descriptor(); }
  int values_descriptor() const { return values_.descriptor(); }

  // ---- values ----
  // The slot of `round`, to be filled (workers) and then published. Its former content, round - 2,
  // is void from this call on.
  absl::Span<float> WritableValue(uint32_t fragment, int64_t round);
  // The slot of `round` now holds it.
  void Publish(uint32_t fragment, int64_t round);
  // Whether the value of `round` is here.
  bool Holds(uint32_t fragment, int64_t round) const;
  // Needs Holds().
  absl::Span<const float> Value(uint32_t fragment, int64_t round) const;

  // ---- contributions ----
  // What the work in the fragment's snapshot started from: the value of the round that Begin names,
  // or the one before. Counts from the next Begin on.
  void SetOrigin(uint32_t fragment, local::Origin origin);
  bool FromOlder(uint32_t fragment) const;
  // Opens a contribution from the fragment's snapshot. Outer rules: FAILED_PRECONDITION when the
  // value of `base_round` is not here (the trainer must rebase). `weight` is the contribution's
  // own; the residual is rescaled to it. `seed` is of stochastic rounding; it must differ per round
  // and cluster. The fragment must not have an open contribution. `codec` (valid) is this
  // contribution's alone: a residual is kept wherever the configured codec has error feedback, and
  // passes from one codec to the next.
  absl::Status Begin(uint32_t fragment, int64_t base_round, uint64_t weight, uint32_t seed,
                     const compression::CodecSpec& codec);
  // By the configured codec.
  absl::Status Begin(uint32_t fragment, int64_t base_round, uint64_t weight, uint32_t seed) {
    return Begin(fragment, base_round, weight, seed, options_.codec);
  }
  bool open(uint32_t fragment) const;
  // Whether every chunk of the open contribution is encoded.
  bool Encoded(uint32_t fragment) const;

  // Workers. Encodes a chunk of the open contribution, once each: the difference between the value
  // that was delivered at base_round, as the trainer holds it (cast to the fragment's dtype), and
  // the snapshot; plus the residual. `out` holds at least EncodedSizeMax.
  EncodedChunk EncodeChunk(uint32_t fragment, uint32_t chunk, absl::Span<uint8_t> out);
  // By the codec of the open contribution; before the first one, the configured.
  size_t EncodedSizeMax(uint32_t fragment, uint32_t chunk) const;
  // Workers, before EncodeChunk of the same chunk of the open contribution, whose weight is not 0:
  // residual += fl(scale x extra), in the contribution's units. `extra` is bf16, one for each of
  // the chunk's elements. Stays when the contribution is dropped. Needs KeepsResidual().
  void AddToResidual(uint32_t fragment, uint32_t chunk, absl::Span<const uint16_t> extra,
                     double scale);
  bool KeepsResidual() const { return options_.codec.error_feedback; }
  bool Corrects() const { return options_.correction.on(); }
  // Workers. The matrices in a chunk, where the configured codec sends factors; none otherwise.
  std::vector<compression::MatrixPiece> PiecesOf(uint32_t fragment, uint32_t chunk) const;

  // Every chunk was encoded and the contribution counted: the pending residual becomes the
  // committed one (with weight 0 nothing of it counted, and the residual stays).
  void Commit(uint32_t fragment);
  // The contribution counts nowhere: the pending residual is forgotten.
  void Drop(uint32_t fragment);
  // The residual becomes zero: after a restart, a rollback or a state that came from elsewhere. No
  // open contribution.
  void ResetResidual(uint32_t fragment);
  // Whether a committed residual (other than all zero) is kept. No contribution is being encoded.
  bool HasResidual(uint32_t fragment) const;

  // ---- checkpoints (residual.cc) ----
  // The committed residual, as options().residual says, and, by chunk, the weight for which it is
  // scaled (0: it is zero, whatever is written there). No span where none is kept. To be read while
  // nothing is encoded.
  absl::Span<const std::byte> CommittedResidual(uint32_t fragment) const;
  const std::vector<uint64_t>& ResidualWeights(uint32_t fragment) const;
  // Where a residual of these weights, one for each chunk, is to be written, as it becomes the
  // committed one. No open contribution. Needs KeepsResidual().
  absl::Span<std::byte> RestoreResidual(uint32_t fragment, absl::Span<const uint64_t> weights);

  // ---- growth (residual.cc) ----
  // The first `fragments` fragments get the values and committed residuals that they have in
  // `from`, where they lie alike and no contribution is open.
  void TakeOver(LocalEndpoint& from, uint32_t fragments);

  // ---- snapshots in a device's memory ----
  // Makes ready for snapshots that lie in `memory`, laid out as the snapshot segment is, its
  // padding zero. INVALID_ARGUMENT when it is too small, RESOURCE_EXHAUSTED. What the device cannot
  // encode is copied and encoded by the CPU.
  absl::StatusOr<std::shared_ptr<const DeviceSnapshots>> MapDevice(
      std::shared_ptr<gpu::GpuCodec> gpu, std::unique_ptr<gpu::DeviceMemory> memory,
      const std::shared_ptr<memory::Account>& account) const;
  // Where the snapshot of the fragment's next contribution lies; null, or not told: in the segment.
  // First values are always there. `device` is this endpoint's MapDevice; it is let go of when
  // every chunk is encoded, whatever becomes of them.
  void SnapshotIn(uint32_t fragment, std::shared_ptr<const DeviceSnapshots> device);

  // ---- the snapshot ----
  // Workers. The snapshot in fp32, padding zero: what a trainer offers as a first value.
  void LoadSnapshot(uint32_t fragment, absl::Span<float> out) const;
  // Workers. The first tensor (in layout order) that holds NaN or Inf. One pass over the memory.
  std::optional<std::string> NonFiniteInSnapshot(uint32_t fragment) const;
  // The same where the snapshot lies in `device` (null: in the segment), by its own scan.
  // UNAVAILABLE when the device fails.
  absl::StatusOr<std::optional<std::string>> NonFiniteIn(const DeviceSnapshots* device,
                                                         uint32_t fragment) const;
  // Workers. Whether the snapshot equals the value of `round` as a trainer holds it, bit by bit.
  bool SnapshotMatches(uint32_t fragment, int64_t round) const;

  // ---- digests ----
  // Workers. SHA-256 over all fragments' values in fp32 (little-endian, padding as zeros), in
  // order. The offered parameters and the run's values are comparable. Of the snapshot, fragments
  // before `first` may be left out.
  schema::Digest SnapshotDigest(uint32_t first = 0) const;
  schema::Digest ValuesDigest(absl::Span<const int64_t> rounds) const;  // a round for each fragment

 private:
  struct FragmentState;

  LocalEndpoint(std::shared_ptr<const schema::Schema> schema,
                std::shared_ptr<const schema::Layout> layout, Options options);
  absl::Status MapMemory(const std::shared_ptr<memory::Account>& account);
  const local::FragmentRecord& record(uint32_t fragment) const;
  const std::byte* SnapshotArea(uint32_t fragment) const;
  const float* Slot(uint32_t fragment, int64_t round) const;
  std::byte* Residual(uint32_t fragment, int half, uint64_t first_element);
  size_t ResidualBytes(uint64_t elements) const;
  // The base as the trainer holds it: the value itself for fp32, else cast there and back into
  // `scratch`.
  const float* Base(uint32_t fragment, int64_t round, uint64_t first, uint32_t n,
                    float* scratch) const;
  bool SendsFactors(const compression::CodecSpec& codec) const;
  // `input` but for the base; returns the chunk's bytes.
  size_t EncodeOnCpu(uint32_t fragment, uint64_t first, compression::EncodeInput input,
                     absl::Span<uint8_t> out, compression::EncodeStats* stats);
  void Finish(uint32_t fragment, uint32_t chunk, const compression::EncodeStats& stats,
              EncodedChunk* result);
  // correction.cc
  uint16_t* Momentum(uint32_t fragment, int half, uint64_t first_element);
  void ForgetMomentum(uint32_t fragment, uint64_t first_element, uint64_t count);
  absl::Status LoadGradient(uint32_t fragment, uint64_t first, absl::Span<float> out) const;
  absl::StatusOr<float> MeasureClip(uint32_t fragment, float* scratch) const;
  EncodedChunk EncodeCorrected(uint32_t fragment, uint32_t chunk, compression::EncodeInput input,
                               absl::Span<uint8_t> out);
  // device.cc
  EncodedChunk EncodeFromDevice(uint32_t fragment, uint32_t chunk, compression::EncodeInput input,
                                absl::Span<uint8_t> out);
  void RescaleResidual(FragmentState& state, uint32_t fragment, uint32_t chunk, uint32_t n);
  std::string TensorName(uint32_t fragment, uint64_t element) const;

  const std::shared_ptr<const schema::Schema> schema_;  // shared with the run's other parts
  const std::shared_ptr<const schema::Layout> layout_;  // shared with the trainers' sessions
  const Options options_;
  memory::SharedMemory snapshot_;
  memory::SharedMemory values_;
  PrivateMemory residuals_;  // two halves, each with every element's; empty without error feedback
  Matrices matrices_;        // empty unless the configured codec sends factors
  PrivateMemory warm_;       // bf16: what each chunk's next factors begin with
  PrivateMemory momenta_;    // two halves in bf16, of the correction; empty without
  std::unique_ptr<ScratchSet> scratch_;  // null where nothing needs it (memory_needed.h)
  std::vector<std::unique_ptr<FragmentState>> fragments_;
  loop::Confined confined_;
};

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_ENDPOINT_H_
