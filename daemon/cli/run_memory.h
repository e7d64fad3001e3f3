// What a run takes of this gateway's memory, before its schema is known: a formula by parameter.
//
// Pure. The local endpoint's part comes from daemon/endpoint, which reserves it; the rest is what
// the exchange holds while rounds are open.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "daemon/config/config.h"

namespace causeway::cli {

struct MemoryPart {
  std::string name;
  std::string what;  // for a person
  double bytes_per_parameter = 0;
  uint64_t bytes_fixed = 0;
  uint64_t bytes_max = std::numeric_limits<uint64_t>::max();  // a larger model waits instead
};

struct RunMemory {
  std::vector<MemoryPart> parts;
  double bytes_per_parameter = 0;  // sums over the parts
  uint64_t bytes_fixed = 0;

  uint64_t Total(uint64_t parameters) const;
  // The most parameters that fit `budget_bytes` when this run is alone.
  uint64_t ParametersMax(uint64_t budget_bytes) const;
};

// At its peak, for fp32 parameters, with every fragment in flight. `run` is one of a parsed
// configuration.
RunMemory MemoryOf(const config::Config& config, const config::Run& run);

}  // namespace causeway::cli
