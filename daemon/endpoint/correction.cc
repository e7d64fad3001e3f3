// See correction.h. Below, the endpoint's part of it.
#include "daemon/endpoint/correction.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "compression/vector.h"
#include "daemon/endpoint/endpoint.h"
#include "daemon/endpoint/fragment_state.h"

namespace causeway::endpoint {
namespace {

constexpr uint32_t kTile = 4096;
constexpr size_t kLanes = 8;                 // partial sums of a norm, added in order
constexpr float kMomentumMax = 0x1.0p+112f;  // from here on some codec calls a value non-finite

}  // namespace

double SquaredNorm(absl::Span<const float> values) {
  double sums[kLanes] = {};
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double v = values[i + lane];
      sums[lane] += v * v;
    }
  }
  for (size_t i = whole; i < values.size(); ++i) {
    const double v = values[i];
    sums[i - whole] += v * v;
  }
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

float ClipFactor(double squared_norm, double norm_max) {
  const double norm = std::sqrt(squared_norm);
  if (norm_max <= 0 || !std::isfinite(norm) || norm <= norm_max) return 1.0f;
  return static_cast<float>(norm_max / norm);
}

void AdvanceMomentum(const uint16_t* momentum, float mu, float clip, absl::Span<float> work,
                     uint16_t* next) {
  float tile[kTile] = {};
  for (size_t done = 0; done < work.size(); done += kTile) {
    const size_t count = std::min<size_t>(kTile, work.size() - done);
    const absl::Span<float> now = work.subspan(done, count);
    if (momentum != nullptr) {
      compression::CastToFp32(momentum + done, count, compression::DType::kBf16, tile);
    }
    for (size_t i = 0; i < count; ++i) {
      const float kept = mu * tile[i];
      const float added = clip * now[i];
      now[i] = kept + added;
      tile[i] = std::fabs(now[i]) < kMomentumMax ? now[i] : 0.0f;
    }
    compression::CastFromFp32(tile, count, compression::DType::kBf16, next + done);
    if (momentum == nullptr) std::fill_n(tile, count, 0.0f);
  }
}

void ForgetSent(absl::Span<const float> sent, uint16_t* momentum) {
  for (size_t i = 0; i < sent.size(); ++i) {
    if (sent[i] != 0.0f) momentum[i] = 0;
  }
}

// ---- the endpoint ----

uint16_t* LocalEndpoint::Momentum(uint32_t fragment, int half, uint64_t first_element) {
  auto* base = reinterpret_cast<uint16_t*>(momenta_.data());
  return base + static_cast<uint64_t>(half) * layout_->elements() +
         fragments_[fragment]->residual_first + first_element;
}

void LocalEndpoint::ForgetMomentum(uint32_t fragment, uint64_t first_element, uint64_t count) {
  if (!Corrects()) return;
  std::fill_n(Momentum(fragment, fragments_[fragment]->committed_half, first_element), count,
              uint16_t{0});
}

// The gradient's elements [first, first + out.size()), at most a chunk, from wherever it lies.
absl::Status LocalEndpoint::LoadGradient(uint32_t fragment, uint64_t first,
                                         absl::Span<float> out) const {
  const auto dtype = static_cast<compression::DType>(record(fragment).dtype);
  const size_t size = compression::DTypeBytes(dtype);
  const DeviceSnapshots* device = fragments_[fragment]->device.get();
  if (device == nullptr) {
    compression::CastToFp32(SnapshotArea(fragment) + first * size, out.size(), dtype, out.data());
    return absl::OkStatus();
  }
  ScratchSet::Loan copy(*device->scratch);
  const std::byte* from = device->memory->data() + record(fragment).snapshot_offset + first * size;
  absl::Status copied = device->gpu->CopyToHost(from, out.size() * size, copy.data());
  if (copied.ok()) compression::CastToFp32(copy.data(), out.size(), dtype, out.data());
  return copied;
}

absl::StatusOr<float> LocalEndpoint::MeasureClip(uint32_t fragment, float* scratch) const {
  double squares = 0;
  for (uint32_t chunk = 0; chunk < fragments_[fragment]->chunks; ++chunk) {
    const absl::Span<float> part(scratch, layout_->ChunkElements(fragment, chunk));
    const uint64_t first = uint64_t{chunk} * compression::kChunkElements;
    absl::Status loaded = LoadGradient(fragment, first, part);
    if (!loaded.ok()) return loaded;
    squares += SquaredNorm(part);
  }
  return ClipFactor(squares, options_.correction.norm_max);
}

EncodedChunk LocalEndpoint::EncodeCorrected(uint32_t fragment, uint32_t chunk,
                                            compression::EncodeInput input,
                                            absl::Span<uint8_t> out) {
  FragmentState& state = *fragments_[fragment];
  const uint64_t first = uint64_t{chunk} * compression::kChunkElements;
  ScratchSet::Loan loan(*scratch_);
  const absl::Span<float> work(loan.data(), input.n);
  EncodedChunk result;
  // By whoever comes first: all chunks need it.
  absl::call_once(state.clip->once, [&] {
    if (options_.correction.norm_max > 0) state.clip->factor = MeasureClip(fragment, loan.data());
  });
  result.status = state.clip->factor.status();
  if (result.status.ok()) result.status = LoadGradient(fragment, first, work);
  compression::EncodeStats stats;
  if (result.status.ok()) {
    const bool known = state.residual_weight[chunk] != 0;
    uint16_t* next = Momentum(fragment, 1 - state.committed_half, first);
    AdvanceMomentum(known ? Momentum(fragment, state.committed_half, first) : nullptr,
                    static_cast<float>(options_.correction.momentum), *state.clip->factor, work,
                    next);
    input.snapshot = work.data();
    input.snapshot_dtype = compression::DType::kFp32;
    result.bytes = compression::EncodeChunk(state.codec, input, out, &stats);
    compression::DecodeChunk(out.first(result.bytes), work.data());
    ForgetSent(work, next);
  }
  Finish(fragment, chunk, stats, &result);
  return result;
}

}  // namespace causeway::endpoint
