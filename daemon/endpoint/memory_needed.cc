// See memory_needed.h.
#include "daemon/endpoint/memory_needed.h"

#include "daemon/endpoint/scratch.h"

namespace causeway::endpoint {
namespace {

constexpr double kValueBytes = 2 * sizeof(float);  // two slots
constexpr double kMomentumBytes = 2;               // bf16

void AddResiduals(std::vector<MemoryPart>& parts, const compression::CodecSpec& codec,
                  compression::DType dtype, uint64_t elements) {
  if (!codec.error_feedback) return;
  const bool wide = dtype == compression::DType::kFp32;
  const size_t size = compression::DTypeBytes(dtype);
  const auto per_element = static_cast<double>(size);
  const uint64_t bytes = elements * size;
  parts.push_back({"residual",
                   wide ? "what encoding lost so far (fp32)" : "what encoding lost so far (bf16)",
                   per_element, bytes});
  parts.push_back({"pending residual",
                   wide ? "what the open round's encoding lost (fp32)"
                        : "what the open round's encoding lost (bf16)",
                   per_element, bytes});
}

void AddMomentum(std::vector<MemoryPart>& parts, bool corrects, uint64_t elements) {
  if (!corrects) return;
  const uint64_t bytes = elements * static_cast<uint64_t>(kMomentumBytes);
  parts.push_back({"gradient momentum", "of what is not sent yet (bf16)", kMomentumBytes, bytes});
  parts.push_back({"pending gradient momentum", "the same once the open round counts (bf16)",
                   kMomentumBytes, bytes});
}

// Of a model that is one square matrix a chunk, or of these matrices.
void AddFactors(std::vector<MemoryPart>& parts, double per_element, uint64_t bytes) {
  if (bytes == 0) return;
  parts.push_back({"factors", "what the next factors begin with (bf16)", per_element, bytes});
}

void AddScratch(std::vector<MemoryPart>& parts, uint32_t encoders_max) {
  parts.push_back({"scratch", "what is encoded, cast or corrected: one chunk an encoder", 0,
                   encoders_max * ScratchSet::kBufferBytes});
}

}  // namespace

std::vector<MemoryPart> MemoryNeeded(uint64_t elements, local::DType dtype,
                                     const compression::CodecSpec& codec,
                                     compression::DType residual, uint32_t encoders_max,
                                     bool corrects) {
  const auto dtype_bytes = schema::DTypeBytes(dtype);
  std::vector<MemoryPart> parts;
  parts.push_back({"values", "the two newest global values (fp32)", kValueBytes,
                   elements * static_cast<uint64_t>(kValueBytes)});
  parts.push_back({"snapshot", "the trainers' tensors as submitted",
                   static_cast<double>(dtype_bytes), elements * dtype_bytes});
  AddResiduals(parts, codec, residual, elements);
  AddMomentum(parts, corrects, elements);
  if (codec.kind == compression::CodecKind::kLowRank) {
    // Half of the factors is Q.
    const double per_element = compression::BitsPerElement(codec) / 8 / 2;
    AddFactors(parts, per_element,
               static_cast<uint64_t>(per_element * static_cast<double>(elements)));
  }
  if (corrects || dtype != local::DType::kFp32) AddScratch(parts, encoders_max);
  return parts;
}

std::vector<MemoryPart> MemoryNeeded(const schema::Layout& layout, const Matrices& matrices,
                                     const compression::CodecSpec& codec,
                                     compression::DType residual, uint32_t encoders_max, bool outer,
                                     bool corrects) {
  const auto elements = static_cast<double>(layout.elements());
  std::vector<MemoryPart> parts;
  parts.push_back({"values", "the two newest global values (fp32)",
                   static_cast<double>(layout.values_bytes()) / elements, layout.values_bytes()});
  parts.push_back({"snapshot", "the trainers' tensors as submitted",
                   static_cast<double>(layout.snapshot_bytes()) / elements,
                   layout.snapshot_bytes()});
  AddResiduals(parts, codec, residual, layout.elements());
  AddMomentum(parts, corrects, layout.elements());
  const uint64_t factors = matrices.warm_elements() * sizeof(uint16_t);
  AddFactors(parts, static_cast<double>(factors) / elements, factors);
  bool cast = false;
  for (const local::FragmentRecord& fragment : layout.fragments()) {
    cast = cast || fragment.dtype != static_cast<uint8_t>(local::DType::kFp32);
  }
  if (corrects || (cast && outer)) AddScratch(parts, encoders_max);
  return parts;
}

uint64_t TotalBytes(const std::vector<MemoryPart>& parts) {
  uint64_t total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  return total;
}

}  // namespace causeway::endpoint
