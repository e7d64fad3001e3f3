// The arithmetic of applying a result: p = round(new + (now - ref)) and its relatives, element by
// element.
//
// fp32, no contraction, one rounding into the tensor's dtype. Pure functions over pointers that the
// caller has checked. Any thread.
#pragma once

#include <cstdint>

namespace causeway::client {

enum class Rule : uint8_t {
  kCarrySent,  // ref is what was sent, in the tensor's dtype
  kCarryBase,  // ref is the base's fp32 value, rounded to the tensor's dtype as it was delivered
  kMix,
  kReplace,
};

struct MergeSpan {
  uint8_t dtype = 0;  // of now, sent and out
  uint8_t cast_dtype = 0;
  uint64_t count = 0;            // elements
  const float* fresh = nullptr;  // the new global value
  const void* now = nullptr;     // all but kReplace
  const void* sent = nullptr;    // kCarrySent
  const float* base = nullptr;   // kCarryBase
  float mix = 0;                 // kMix: p = (1 - mix) fresh + mix now
  void* out = nullptr;           // may be `now`
  void* cast = nullptr;          // optional: the same new value in cast_dtype
};

void Merge(Rule rule, const MergeSpan& span);

// fp32 to dtype.
void Cast(const float* from, uint64_t count, uint8_t dtype, void* to);

}  // namespace causeway::client
