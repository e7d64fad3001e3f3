// A budget of its own rather than a share of the common one: what is promised to a round cannot be
// taken meanwhile by anybody else.
#include "daemon/exchange/reserve.h"

#include <algorithm>

namespace causeway::exchange {
namespace {

using memory::BufferPool;

// Chunks whose packed form lies beside the plain one while a worker makes it.
constexpr uint32_t kPackingMax = 9;

uint64_t RoundBytes(const schema::Layout& layout, engine::FragmentId fragment,
                    const compression::CodecSpec& codec, bool owner) {
  uint64_t total = 0;
  uint64_t largest = 0;
  const uint32_t chunks = layout.fragments()[fragment].chunks;
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const uint32_t n = layout.ChunkElements(fragment, chunk);
    const uint64_t encoded = BufferPool::ClassBytes(compression::EncodedSizeMax(codec, n));
    largest = std::max(largest, encoded);
    total += encoded + BufferPool::ClassBytes(n * sizeof(float));
    if (owner) total += encoded;
  }
  if (codec.entropy) total += largest * std::min(chunks, kPackingMax);
  return total;
}

uint64_t ResidualBytes(const schema::Layout& layout, engine::FragmentId fragment) {
  uint64_t total = 0;
  for (uint32_t chunk = 0; chunk < layout.fragments()[fragment].chunks; ++chunk) {
    total += BufferPool::ClassBytes(layout.ChunkElements(fragment, chunk) * sizeof(uint16_t));
  }
  return total;
}

}  // namespace

Reserve::Sizes Reserve::SizesFor(const schema::Layout& layout,
                                 const std::vector<compression::CodecSpec>& codecs, bool owner) {
  Sizes out;
  bool residuals = false;
  for (const compression::CodecSpec& codec : codecs) {
    residuals = residuals || (owner && codec.error_feedback);
    for (engine::FragmentId f = 0; f < layout.fragments().size(); ++f) {
      out.round_bytes = std::max(out.round_bytes, RoundBytes(layout, f, codec, owner));
    }
  }
  for (engine::FragmentId f = 0; residuals && f < layout.fragments().size(); ++f) {
    out.residual_bytes += 2 * ResidualBytes(layout, f);
  }
  return out;
}

absl::StatusOr<std::unique_ptr<Reserve>> Reserve::Create(memory::BufferPool* shared,
                                                         std::shared_ptr<memory::Account> account,
                                                         const Sizes& sizes) {
  absl::StatusOr<memory::Charge> charge =
      memory::Charge::Reserve(std::move(account), sizes.round_bytes + sizes.residual_bytes);
  if (!charge.ok()) return charge.status();
  return std::unique_ptr<Reserve>(new Reserve(shared, *std::move(charge), sizes));
}

Reserve::Reserve(memory::BufferPool* shared, memory::Charge charge, const Sizes& sizes)
    : shared_(shared),
      charge_(std::move(charge)),
      round_(sizes.round_bytes),
      residuals_(sizes.residual_bytes) {}

bool Reserve::Owns(const Name& name) {
  if (owner_ == name) return true;
  if (owner_ && !round_.idle()) return false;
  for (const auto& [fragment, round] : open_) {
    if (Name{round, fragment} < name) return false;
  }
  owner_ = name;
  return true;
}

absl::StatusOr<memory::Buffer> Reserve::Allocate(engine::FragmentId fragment, size_t size) {
  const auto open = open_.find(fragment);
  if (open != open_.end() && Owns({open->second, fragment})) {
    absl::StatusOr<memory::Buffer> own = round_.Allocate(size);
    if (own.ok()) return own;
  }
  return shared_->Allocate(size);
}

}  // namespace causeway::exchange
