// The alternative, merging into a temporary and copying it out, reads and writes everything once
// more.
#include "client/shim/merge.h"

#include "client/include/causeway.h"
#include "client/shim/number.h"

namespace causeway::client {
namespace {

struct Fp32 {
  using Stored = float;
  static float Load(float value) { return value; }
  static float Store(float value) { return value; }
};
struct Bf16 {
  using Stored = uint16_t;
  static float Load(uint16_t value) { return FromBf16(value); }
  static uint16_t Store(float value) { return ToBf16(value); }
};
struct Fp16 {
  using Stored = uint16_t;
  static float Load(uint16_t value) { return FromFp16(value); }
  static uint16_t Store(float value) { return ToFp16(value); }
};

template <typename T>
void CastAs(const float* from, uint64_t count, void* to) {
  auto* out = static_cast<typename T::Stored*>(to);
  for (uint64_t i = 0; i < count; ++i) out[i] = T::Store(from[i]);
}

// The value of element i under a rule, in fp32.
template <typename T, Rule kRule>
float Value(const MergeSpan& span, uint64_t i) {
  const auto* now = static_cast<const typename T::Stored*>(span.now);
  if constexpr (kRule == Rule::kCarrySent) {
    const auto* sent = static_cast<const typename T::Stored*>(span.sent);
    return span.fresh[i] + (T::Load(now[i]) - T::Load(sent[i]));
  } else if constexpr (kRule == Rule::kCarryBase) {
    return span.fresh[i] + (T::Load(now[i]) - T::Load(T::Store(span.base[i])));
  } else if constexpr (kRule == Rule::kMix) {
    const float kept = span.mix * T::Load(now[i]);
    return (1.0f - span.mix) * span.fresh[i] + kept;
  } else {
    return span.fresh[i];
  }
}

template <typename T, Rule kRule>
void MergeAs(const MergeSpan& span) {
  auto* out = static_cast<typename T::Stored*>(span.out);
  if (span.cast == nullptr) {
    for (uint64_t i = 0; i < span.count; ++i) out[i] = T::Store(Value<T, kRule>(span, i));
    return;
  }
  // With a cast the tensor is a master copy, and its model copy is the cast of the *stored* master.
  for (uint64_t i = 0; i < span.count; ++i) {
    out[i] = T::Store(Value<T, kRule>(span, i));
    const float value = T::Load(out[i]);
    if (span.cast_dtype == CW_BF16) {
      static_cast<uint16_t*>(span.cast)[i] = ToBf16(value);
    } else if (span.cast_dtype == CW_FP16) {
      static_cast<uint16_t*>(span.cast)[i] = ToFp16(value);
    } else {
      static_cast<float*>(span.cast)[i] = value;
    }
  }
}

template <typename T>
void MergeRule(Rule rule, const MergeSpan& span) {
  switch (rule) {
    case Rule::kCarrySent:
      return MergeAs<T, Rule::kCarrySent>(span);
    case Rule::kCarryBase:
      return MergeAs<T, Rule::kCarryBase>(span);
    case Rule::kMix:
      return MergeAs<T, Rule::kMix>(span);
    case Rule::kReplace:
      return MergeAs<T, Rule::kReplace>(span);
  }
}

}  // namespace

void Merge(Rule rule, const MergeSpan& span) {
  switch (span.dtype) {
    case CW_BF16:
      return MergeRule<Bf16>(rule, span);
    case CW_FP16:
      return MergeRule<Fp16>(rule, span);
    default:
      return MergeRule<Fp32>(rule, span);
  }
}

void Cast(const float* from, uint64_t count, uint8_t dtype, void* to) {
  switch (dtype) {
    case CW_BF16:
      return CastAs<Bf16>(from, count, to);
    case CW_FP16:
      return CastAs<Fp16>(from, count, to);
    default:
      return CastAs<Fp32>(from, count, to);
  }
}

}  // namespace causeway::client
