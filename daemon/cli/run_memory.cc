#include "daemon/cli/run_memory.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/codec.h"
#include "daemon/config/scalars.h"
#include "daemon/endpoint/memory_needed.h"

namespace causeway::cli {
namespace {

constexpr uint64_t kParametersMax = uint64_t{1} << 42;  // as proto/local_protocol.h
constexpr uint64_t kSampleElements = compression::kChunkElements;

constexpr double kResidualBytes = 2;

bool HasMomentum(const config::Run& run) {
  const config::Rule rule = run.algorithm.rule;
  return rule == config::Rule::kNesterov || rule == config::Rule::kEager ||
         rule == config::Rule::kCo2;
}

// Whole chunks, header and padding included.
double EncodedBytesPerElement(const compression::CodecSpec& spec) {
  return static_cast<double>(compression::EncodedSizeMax(spec, compression::kChunkElements)) /
         compression::kChunkElements;
}

// What open rounds hold besides the endpoint: daemon/run gives each peer a window of two rounds,
// within a quarter of the budget for all of them.
void AddExchange(const config::Config& config, const config::Run& run,
                 const compression::CodecSpec& spec, RunMemory* memory) {
  double encoded = EncodedBytesPerElement(spec);
  for (const std::string& rung : run.codec.ladder) {  // room for whichever is chosen
    const auto other = compression::CodecSpec::Parse(rung);
    encoded = std::max(encoded, EncodedBytesPerElement(*other));
  }
  const size_t peers = run.clusters.size() - 1;
  if (peers == 0) return;
  memory->parts.push_back({"retained", "own encoded chunks, until the round is decided", encoded});
  memory->parts.push_back({"mean", "the mean of a round, until it is committed", sizeof(float)});
  double round = encoded + sizeof(float);
  if (peers > 1 && run.route != config::Route::kDirect) {
    memory->parts.push_back({"results", "of the chunks that this cluster owns, encoded", encoded});
    round += encoded;
    if (spec.error_feedback) {
      memory->parts.push_back({"owned residual",
                               "what encoding owned chunks lost, and the open round's (bf16)",
                               2 * kResidualBytes});
      round += 2 * kResidualBytes;
    }
  }
  // A gateway that joins holds the state that it fetches, but no round of its own yet.
  const double state = HasMomentum(run) ? 2 * sizeof(float) : sizeof(float);
  if (state > round) {
    memory->parts.push_back(
        {"joining", "the state that a returning gateway fetches, beyond a round", state - round});
  }
  MemoryPart received;
  received.name = "received";
  received.bytes_per_parameter = 2 * encoded * static_cast<double>(peers);
  received.bytes_max = static_cast<uint64_t>(config.memory_bytes) / 4;
  received.what = absl::StrCat("two rounds of ", peers, peers == 1 ? " peer" : " peers",
                               ", encoded; never above ",
                               config::FormatSizeBytes(static_cast<int64_t>(received.bytes_max)));
  memory->parts.push_back(std::move(received));
}

}  // namespace

uint64_t RunMemory::Total(uint64_t parameters) const {
  uint64_t total = bytes_fixed;
  for (const MemoryPart& part : parts) {
    const double bytes = std::ceil(part.bytes_per_parameter * static_cast<double>(parameters));
    total +=
        bytes < static_cast<double>(part.bytes_max) ? static_cast<uint64_t>(bytes) : part.bytes_max;
  }
  return total;
}

uint64_t RunMemory::ParametersMax(uint64_t budget_bytes) const {
  // Total grows with the parameters, so the answer is found by halving.
  uint64_t fits = 0;
  uint64_t too_many = kParametersMax + 1;
  if (Total(0) > budget_bytes) return 0;
  while (too_many - fits > 1) {
    const uint64_t middle = fits + (too_many - fits) / 2;
    (Total(middle) <= budget_bytes ? fits : too_many) = middle;
  }
  return fits;
}

RunMemory MemoryOf(const config::Config& config, const config::Run& run) {
  const auto spec = compression::CodecSpec::Parse(run.codec.kind);
  assert(spec.ok() && "the parser checked it");
  RunMemory memory;
  for (const endpoint::MemoryPart& part : endpoint::MemoryNeeded(
           kSampleElements, local::DType::kFp32, *spec,
           run.codec.residual_fp32 ? compression::DType::kFp32 : compression::DType::kBf16, 1,
           run.algorithm.CorrectsGradients())) {
    const uint64_t fixed = part.bytes_per_element > 0 ? 0 : part.bytes;
    memory.parts.push_back({part.name, part.what, part.bytes_per_element, fixed});
  }
  if (HasMomentum(run)) {
    memory.parts.push_back({"momentum", "the outer momentum (fp32)", sizeof(float)});
  }
  AddExchange(config, run, *spec, &memory);
  for (const MemoryPart& part : memory.parts) {
    memory.bytes_per_parameter += part.bytes_per_parameter;
    memory.bytes_fixed += part.bytes_fixed;
  }
  return memory;
}

}  // namespace causeway::cli
