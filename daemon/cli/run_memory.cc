#include "daemon/cli/run_memory.h"

#include <cassert>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compression/codec.h"
#include "daemon/endpoint/memory_needed.h"

namespace causeway::cli {
namespace {

constexpr uint64_t kSampleElements = compression::kChunkElements;

// Whole chunks, header and padding included.
double EncodedBytesPerElement(const compression::CodecSpec& spec) {
  return static_cast<double>(compression::EncodedSizeMax(spec, compression::kChunkElements)) /
         compression::kChunkElements;
}

void AddExchange(const config::Run& run, const compression::CodecSpec& spec, RunMemory* memory) {
  const double encoded = EncodedBytesPerElement(spec);
  const size_t peers = run.clusters.size() - 1;
  if (peers == 0) return;
  memory->parts.push_back({"retained", "own encoded chunks, until the round is decided", encoded});
  memory->parts.push_back({"received",
                           absl::StrCat("encoded chunks of ", peers,
                                        peers == 1 ? " peer" : " peers", ", until they are summed"),
                           encoded * static_cast<double>(peers)});
}

}  // namespace

uint64_t RunMemory::Total(uint64_t parameters) const {
  return bytes_fixed +
         static_cast<uint64_t>(std::ceil(bytes_per_parameter * static_cast<double>(parameters)));
}

uint64_t RunMemory::ParametersMax(uint64_t budget_bytes) const {
  if (budget_bytes <= bytes_fixed) return 0;
  return static_cast<uint64_t>(static_cast<double>(budget_bytes - bytes_fixed) /
                               bytes_per_parameter);
}

RunMemory MemoryOf(const config::Run& run) {
  const auto spec = compression::CodecSpec::Parse(run.codec.kind);
  assert(spec.ok() && "the parser checked it");
  RunMemory memory;
  for (const endpoint::MemoryPart& part :
       endpoint::MemoryNeeded(kSampleElements, local::DType::kFp32, *spec, 1)) {
    const uint64_t fixed = part.bytes_per_element > 0 ? 0 : part.bytes;
    memory.parts.push_back({part.name, part.what, part.bytes_per_element, fixed});
  }
  if (run.algorithm.rule == config::Rule::kNesterov) {
    memory.parts.push_back({"momentum", "the outer momentum (fp32)", sizeof(float)});
  }
  AddExchange(run, *spec, &memory);
  for (const MemoryPart& part : memory.parts) {
    memory.bytes_per_parameter += part.bytes_per_parameter;
    memory.bytes_fixed += part.bytes_fixed;
  }
  return memory;
}

}  // namespace causeway::cli
