// Contributions and values of the local endpoint. The snapshot's readers are in snapshot.cc.
#include "daemon/endpoint/endpoint.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/low_rank.h"
#include "compression/vector.h"
#include "daemon/endpoint/fragment_state.h"
#include "daemon/endpoint/memory_needed.h"

namespace causeway::endpoint {
namespace {

static_assert(schema::kLayoutChunkElements == compression::kChunkElements);
static_assert(static_cast<int>(local::DType::kFp32) == static_cast<int>(compression::DType::kFp32));
static_assert(static_cast<int>(local::DType::kBf16) == static_cast<int>(compression::DType::kBf16));
static_assert(static_cast<int>(local::DType::kFp16) == static_cast<int>(compression::DType::kFp16));

constexpr uint32_t kTile = 4096;  // elements: 16 KiB of fp32 stay in the L1 cache

compression::DType CodecDType(uint8_t dtype) { return static_cast<compression::DType>(dtype); }

// The error with the segment's name in front, unless it says it already.
absl::Status Named(const absl::Status& status, const std::string& name) {
  if (absl::StrContains(status.message(), name)) return status;
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

absl::Status CheckCorrection(const Options& options) {
  const compression::CodecKind kind = options.codec.kind;
  const bool sparse =
      kind == compression::CodecKind::kTopK || kind == compression::CodecKind::kBlockTopK;
  if (!options.correction.on() || (!options.outer && sparse && options.codec.error_feedback)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "local endpoint: momentum correction is of gradients, with topk or btopk and error feedback");
}

// x = fl(factor x), n values of a type.
void Scale(std::byte* values, uint32_t n, compression::DType dtype, float factor) {
  const size_t size = compression::DTypeBytes(dtype);
  float tile[kTile];
  for (uint32_t done = 0; done < n; done += kTile) {
    const uint32_t count = std::min(kTile, n - done);
    compression::CastToFp32(values + done * size, count, dtype, tile);
    compression::ScaleVector(absl::MakeSpan(tile, count), factor);
    compression::CastFromFp32(tile, count, dtype, values + done * size);
  }
}

// Spreads the round's seed over its chunks (the finaliser of splitmix64).
uint32_t ChunkSeed(uint32_t seed, uint32_t fragment, uint32_t chunk) {
  uint64_t x = (uint64_t{seed} << 32) + (uint64_t{fragment} << 24) + chunk + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>((x ^ (x >> 31)) >> 32);
}

}  // namespace

LocalEndpoint::LocalEndpoint(std::shared_ptr<const schema::Schema> schema,
                             std::shared_ptr<const schema::Layout> layout, Options options)
    : schema_(std::move(schema)), layout_(std::move(layout)), options_(std::move(options)) {
  for (const local::FragmentRecord& record : layout_->fragments()) {
    fragments_.push_back(std::make_unique<FragmentState>(record.chunks));
    fragments_.back()->codec = options_.codec;
  }
  if (options_.codec.kind == compression::CodecKind::kLowRank) {
    matrices_ = Matrices(*schema_, *layout_, options_.codec.rank);
  }
}

LocalEndpoint::~LocalEndpoint() = default;

absl::StatusOr<std::unique_ptr<LocalEndpoint>> LocalEndpoint::Create(
    std::shared_ptr<const schema::Schema> schema, std::shared_ptr<const schema::Layout> layout,
    Options options, std::shared_ptr<memory::Account> account) {
  absl::Status valid = compression::ValidateSpec(options.codec);
  if (valid.ok()) valid = CheckCorrection(options);
  if (!valid.ok()) return valid;
  if (options.residual == compression::DType::kFp16) {
    return absl::InvalidArgumentError("local endpoint: a residual is kept in bf16 or fp32");
  }
  if (options.encoders_max == 0) {
    return absl::InvalidArgumentError("local endpoint: encoders_max must be at least 1");
  }
  std::unique_ptr<LocalEndpoint> endpoint(
      new LocalEndpoint(std::move(schema), std::move(layout), std::move(options)));
  absl::Status mapped = endpoint->MapMemory(account);
  if (!mapped.ok()) return mapped;
  return endpoint;
}

absl::Status LocalEndpoint::MapMemory(const std::shared_ptr<memory::Account>& account) {
  const std::string name = absl::StrCat("run ", options_.run, ": ");
  absl::StatusOr<memory::SharedMemory> snapshot = memory::SharedMemory::Create(
      account, name + "snapshot", layout_->snapshot_bytes(), memory::Access::kOthersWrite);
  if (!snapshot.ok()) return Named(snapshot.status(), name + "snapshot");
  snapshot_ = *std::move(snapshot);
  absl::StatusOr<memory::SharedMemory> values = memory::SharedMemory::Create(
      account, name + "values", layout_->values_bytes(), memory::Access::kOthersRead);
  if (!values.ok()) return Named(values.status(), name + "values");
  values_ = *std::move(values);
  for (const MemoryPart& part : MemoryNeeded(*layout_, matrices_, options_.codec, options_.residual,
                                             options_.encoders_max, options_.outer, Corrects())) {
    const bool momentum = std::strcmp(part.name, "gradient momentum") == 0;
    const bool residual = momentum || std::strcmp(part.name, "residual") == 0;
    const bool warm = std::strcmp(part.name, "factors") == 0;
    if (!residual && !warm && std::strcmp(part.name, "scratch") != 0) continue;
    // The residual (the momentum) and its pending twin lie in one block.
    absl::StatusOr<PrivateMemory> block =
        PrivateMemory::Create(account, name + part.name, residual ? 2 * part.bytes : part.bytes);
    if (!block.ok()) return block.status();
    if (residual) {
      (momentum ? momenta_ : residuals_) = *std::move(block);
    } else if (warm) {
      warm_ = *std::move(block);
    } else {
      scratch_ = std::make_unique<ScratchSet>(*std::move(block), options_.encoders_max);
    }
  }
  uint64_t first = 0;
  for (size_t f = 0; f < fragments_.size(); ++f) {
    fragments_[f]->residual_first = first;
    first += layout_->fragments()[f].elements;
  }
  return absl::OkStatus();
}

const local::FragmentRecord& LocalEndpoint::record(uint32_t fragment) const {
  assert(fragment < layout_->fragments().size());
  return layout_->fragments()[fragment];
}

const float* LocalEndpoint::Slot(uint32_t fragment, int64_t round) const {
  assert(round >= 0);
  return reinterpret_cast<const float*>(values_.data() + record(fragment).values_offset[round % 2]);
}

size_t LocalEndpoint::ResidualBytes(uint64_t elements) const {
  return elements * compression::DTypeBytes(options_.residual);
}

std::byte* LocalEndpoint::Residual(uint32_t fragment, int half, uint64_t first_element) {
  return residuals_.data() + ResidualBytes(static_cast<uint64_t>(half) * layout_->elements() +
                                           fragments_[fragment]->residual_first + first_element);
}

// ---- values ----

absl::Span<float> LocalEndpoint::WritableValue(uint32_t fragment, int64_t round) {
  confined_.Check();
  auto* slot = const_cast<float*>(Slot(fragment, round));  // the segment is ours to write
  fragments_[fragment]->held[round % 2] = kNoRound;
  return {slot, static_cast<size_t>(record(fragment).elements)};
}

void LocalEndpoint::Publish(uint32_t fragment, int64_t round) {
  confined_.Check();
  assert(round >= 0);
  fragments_.at(fragment)->held[round % 2] = round;
}

bool LocalEndpoint::Holds(uint32_t fragment, int64_t round) const {
  return round >= 0 && fragments_.at(fragment)->held[round % 2] == round;
}

absl::Span<const float> LocalEndpoint::Value(uint32_t fragment, int64_t round) const {
  assert(Holds(fragment, round));
  return {Slot(fragment, round), static_cast<size_t>(record(fragment).elements)};
}

// ---- contributions ----

absl::Status LocalEndpoint::Begin(uint32_t fragment, int64_t base_round, uint64_t weight,
                                  uint32_t seed, const compression::CodecSpec& codec) {
  confined_.Check();
  FragmentState& state = *fragments_.at(fragment);
  assert(!state.open && "commit or drop the open contribution first");
  if (state.from_older) --base_round;
  if (options_.outer && !Holds(fragment, base_round)) {
    return absl::FailedPreconditionError(
        absl::StrCat("fragment ", fragment, ": the value of round ", base_round,
                     " is not here any more; take the newest value and submit against it"));
  }
  state.Open(base_round, weight, seed, codec);
  state.device = std::move(state.next_device);
  return absl::OkStatus();
}

void LocalEndpoint::SetOrigin(uint32_t fragment, local::Origin origin) {
  confined_.Check();
  fragments_.at(fragment)->from_older = origin == local::Origin::kOlder;
}

bool LocalEndpoint::FromOlder(uint32_t fragment) const {
  return fragments_.at(fragment)->from_older;
}

bool LocalEndpoint::open(uint32_t fragment) const { return fragments_.at(fragment)->open; }
bool LocalEndpoint::Encoded(uint32_t fragment) const {
  return fragments_.at(fragment)->AllEncoded();
}

size_t LocalEndpoint::EncodedSizeMax(uint32_t fragment, uint32_t chunk) const {
  const compression::CodecSpec& codec = fragments_.at(fragment)->codec;
  if (SendsFactors(codec)) {
    return compression::LowRankSize(codec.rank, matrices_.chunk(fragment, chunk).pieces);
  }
  return compression::EncodedSizeMax(codec, layout_->ChunkElements(fragment, chunk));
}

// By the run's matrices.
bool LocalEndpoint::SendsFactors(const compression::CodecSpec& codec) const {
  return codec.kind == compression::CodecKind::kLowRank && codec.rank == matrices_.rank();
}

std::vector<compression::MatrixPiece> LocalEndpoint::PiecesOf(uint32_t fragment,
                                                              uint32_t chunk) const {
  if (matrices_.empty()) return {};
  return matrices_.chunk(fragment, chunk).pieces;
}

const float* LocalEndpoint::Base(uint32_t fragment, int64_t round, uint64_t first, uint32_t n,
                                 float* scratch) const {
  const float* value = Slot(fragment, round) + first;
  const compression::DType dtype = CodecDType(record(fragment).dtype);
  if (dtype == compression::DType::kFp32) return value;
  uint16_t cast[kTile];
  for (uint32_t done = 0; done < n; done += kTile) {
    const uint32_t count = std::min(kTile, n - done);
    compression::CastFromFp32(value + done, count, dtype, cast);
    compression::CastToFp32(cast, count, dtype, scratch + done);
  }
  return scratch;
}

// The residual is kept as what `residual_weight` would have counted: with another weight w the same
// error is residual x residual_weight / w.
void LocalEndpoint::RescaleResidual(FragmentState& state, uint32_t fragment, uint32_t chunk,
                                    uint32_t n) {
  uint64_t& kept_for = state.residual_weight[chunk];
  if (kept_for == 0 || kept_for == state.weight || state.weight == 0) return;
  const auto factor =
      static_cast<float>(static_cast<double>(kept_for) / static_cast<double>(state.weight));
  const uint64_t first = uint64_t{chunk} * compression::kChunkElements;
  Scale(Residual(fragment, state.committed_half, first), n, options_.residual, factor);
  if (Corrects()) {
    auto* momentum = reinterpret_cast<std::byte*>(Momentum(fragment, state.committed_half, first));
    Scale(momentum, n, compression::DType::kBf16, factor);
  }
  kept_for = state.weight;
}

void LocalEndpoint::AddToResidual(uint32_t fragment, uint32_t chunk,
                                  absl::Span<const uint16_t> extra, double scale) {
  FragmentState& state = *fragments_.at(fragment);
  const uint32_t n = layout_->ChunkElements(fragment, chunk);
  assert(KeepsResidual() && state.open && state.weight != 0 && extra.size() == n);
  RescaleResidual(state, fragment, chunk, n);
  std::byte* residual =
      Residual(fragment, state.committed_half, uint64_t{chunk} * compression::kChunkElements);
  const bool zero = state.residual_weight[chunk] == 0;
  if (zero) ForgetMomentum(fragment, uint64_t{chunk} * compression::kChunkElements, n);
  const auto factor = static_cast<float>(scale);
  float tile[kTile];
  float more[kTile];
  for (uint32_t done = 0; done < n; done += kTile) {
    const uint32_t count = std::min(kTile, n - done);
    compression::CastToFp32(extra.data() + done, count, compression::DType::kBf16, more);
    if (zero) {
      std::fill_n(tile, count, 0.0f);
    } else {
      compression::CastToFp32(residual + ResidualBytes(done), count, options_.residual, tile);
    }
    for (uint32_t i = 0; i < count; ++i) tile[i] += factor * more[i];
    compression::CastFromFp32(tile, count, options_.residual, residual + ResidualBytes(done));
  }
  state.residual_weight[chunk] = state.weight;
}

EncodedChunk LocalEndpoint::EncodeChunk(uint32_t fragment, uint32_t chunk,
                                        absl::Span<uint8_t> out) {
  FragmentState& state = *fragments_.at(fragment);
  assert(state.open);
  const uint32_t n = layout_->ChunkElements(fragment, chunk);
  const uint64_t first = uint64_t{chunk} * compression::kChunkElements;
  assert(out.size() >= EncodedSizeMax(fragment, chunk));

  compression::EncodeInput input;
  input.n = n;
  input.seed = ChunkSeed(state.seed, fragment, chunk);
  input.snapshot_dtype = CodecDType(record(fragment).dtype);
  input.snapshot = SnapshotArea(fragment) + first * compression::DTypeBytes(input.snapshot_dtype);
  input.residual_dtype = options_.residual;
  if (KeepsResidual()) {
    if (state.residual_weight[chunk] != 0) {
      RescaleResidual(state, fragment, chunk, n);
      input.residual_in = Residual(fragment, state.committed_half, first);
    }
    input.residual_out = Residual(fragment, 1 - state.committed_half, first);
  }
  if (SendsFactors(state.codec)) {
    // Kept whatever becomes of the contribution: it is where a search begins, no part of what is
    // sent.
    const Matrices::Chunk& matrices = matrices_.chunk(fragment, chunk);
    input.pieces = matrices.pieces;
    if (warm_.size() != 0) {
      input.warm = reinterpret_cast<uint16_t*>(warm_.data()) + matrices.warm_first;
    }
  }
  if (Corrects()) return EncodeCorrected(fragment, chunk, input, out);
  if (state.device != nullptr) return EncodeFromDevice(fragment, chunk, input, out);
  compression::EncodeStats stats;
  EncodedChunk result;
  result.bytes = EncodeOnCpu(fragment, first, input, out, &stats);
  Finish(fragment, chunk, stats, &result);
  return result;
}

size_t LocalEndpoint::EncodeOnCpu(uint32_t fragment, uint64_t first, compression::EncodeInput input,
                                  absl::Span<uint8_t> out, compression::EncodeStats* stats) {
  const FragmentState& state = *fragments_.at(fragment);
  if (options_.outer && input.snapshot_dtype != compression::DType::kFp32) {
    ScratchSet::Loan loan(*scratch_);
    input.base = Base(fragment, state.base_round, first, input.n, loan.data());
    return compression::EncodeChunk(state.codec, input, out, stats);
  }
  if (options_.outer) input.base = Slot(fragment, state.base_round) + first;
  return compression::EncodeChunk(state.codec, input, out, stats);
}

void LocalEndpoint::Finish(uint32_t fragment, uint32_t chunk, const compression::EncodeStats& stats,
                           EncodedChunk* result) {
  result->nonfinite = stats.nonfinite;
  if (stats.nonfinite != 0) {
    const uint64_t first = uint64_t{chunk} * compression::kChunkElements;
    result->nonfinite_tensor = TensorName(fragment, first + stats.first_nonfinite);
  }
  if (result->status.ok()) fragments_.at(fragment)->MarkEncoded(chunk);
}

void LocalEndpoint::Commit(uint32_t fragment) {
  confined_.Check();
  FragmentState& state = *fragments_.at(fragment);
  assert(state.open && state.AllEncoded() && "a counted contribution was encoded as a whole");
  state.open = false;
  state.device.reset();
  if (!KeepsResidual() || state.weight == 0) return;
  state.committed_half = 1 - state.committed_half;
  std::fill(state.residual_weight.begin(), state.residual_weight.end(), state.weight);
}

void LocalEndpoint::Drop(uint32_t fragment) {
  confined_.Check();
  FragmentState& state = *fragments_.at(fragment);
  assert(state.open);
  state.open = false;
  state.device.reset();
}

void LocalEndpoint::ResetResidual(uint32_t fragment) {
  confined_.Check();
  FragmentState& state = *fragments_.at(fragment);
  assert(!state.open && "drop the open contribution first");
  std::fill(state.residual_weight.begin(), state.residual_weight.end(), 0);
}

bool LocalEndpoint::HasResidual(uint32_t fragment) const {
  const std::vector<uint64_t>& weights = fragments_.at(fragment)->residual_weight;
  return std::any_of(weights.begin(), weights.end(), [](uint64_t weight) { return weight != 0; });
}

std::string LocalEndpoint::TensorName(uint32_t fragment, uint64_t element) const {
  const std::optional<uint32_t> tensor = layout_->TensorAt(fragment, element);
  return tensor ? schema_->tensors()[*tensor].name : std::string();
}

}  // namespace causeway::endpoint
