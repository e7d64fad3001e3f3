// See memory_needed.h.
#include "daemon/endpoint/memory_needed.h"

#include "daemon/endpoint/scratch.h"

namespace causeway::endpoint {
namespace {

constexpr double kValueBytes = 2 * sizeof(float);  // two slots
constexpr double kResidualBytes = 2;               // bf16

void AddResiduals(std::vector<MemoryPart>& parts, const compression::CodecSpec& codec,
                  uint64_t elements) {
  if (!codec.error_feedback) return;
  const uint64_t bytes = elements * static_cast<uint64_t>(kResidualBytes);
  parts.push_back({"residual", "what encoding lost so far (bf16)", kResidualBytes, bytes});
  parts.push_back(
      {"pending residual", "what the open round's encoding lost (bf16)", kResidualBytes, bytes});
}

void AddScratch(std::vector<MemoryPart>& parts, uint32_t encoders_max) {
  parts.push_back({"scratch", "bases cast to the trainer's 16-bit type, one chunk an encoder", 0,
                   encoders_max * ScratchSet::kBufferBytes});
}

}  // namespace

std::vector<MemoryPart> MemoryNeeded(uint64_t elements, local::DType dtype,
                                     const compression::CodecSpec& codec, uint32_t encoders_max) {
  const auto dtype_bytes = schema::DTypeBytes(dtype);
  std::vector<MemoryPart> parts;
  parts.push_back({"values", "the two newest global values (fp32)", kValueBytes,
                   elements * static_cast<uint64_t>(kValueBytes)});
  parts.push_back({"snapshot", "the trainers' tensors as submitted",
                   static_cast<double>(dtype_bytes), elements * dtype_bytes});
  AddResiduals(parts, codec, elements);
  if (dtype != local::DType::kFp32) AddScratch(parts, encoders_max);
  return parts;
}

std::vector<MemoryPart> MemoryNeeded(const schema::Layout& layout,
                                     const compression::CodecSpec& codec, uint32_t encoders_max,
                                     bool outer) {
  const auto elements = static_cast<double>(layout.elements());
  std::vector<MemoryPart> parts;
  parts.push_back({"values", "the two newest global values (fp32)",
                   static_cast<double>(layout.values_bytes()) / elements, layout.values_bytes()});
  parts.push_back({"snapshot", "the trainers' tensors as submitted",
                   static_cast<double>(layout.snapshot_bytes()) / elements,
                   layout.snapshot_bytes()});
  AddResiduals(parts, codec, layout.elements());
  bool cast = false;
  for (const local::FragmentRecord& fragment : layout.fragments()) {
    cast = cast || fragment.dtype != static_cast<uint8_t>(local::DType::kFp32);
  }
  if (cast && outer) AddScratch(parts, encoders_max);
  return parts;
}

uint64_t TotalBytes(const std::vector<MemoryPart>& parts) {
  uint64_t total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  return total;
}

}  // namespace causeway::endpoint
