// The codecs without blocks: one code an element. Shared by every CPU unit and by the CUDA kernels
// (see block_math.h).
#ifndef CAUSEWAY_COMPRESSION_CASTS_H_
#define CAUSEWAY_COMPRESSION_CASTS_H_

#include <cstdint>

#include "compression/block_math.h"

namespace causeway::compression::math {

struct Fp32Cast {
  using Code = uint32_t;
  static constexpr bool kExact = true;
  CAUSEWAY_HD Code From(float v) { return Bits(Canonical(v)); }
  CAUSEWAY_HD float Value(Code code) { return FromBits(code); }
};

struct Bf16Cast {
  using Code = uint16_t;
  static constexpr bool kExact = false;
  CAUSEWAY_HD Code From(float v) { return ToBf16Saturated(v); }
  CAUSEWAY_HD float Value(Code code) { return FromBf16(code); }
};

struct Fp16Cast {
  using Code = uint16_t;
  static constexpr bool kExact = false;
  CAUSEWAY_HD Code From(float v) { return ToFp16Saturated(v); }
  CAUSEWAY_HD float Value(Code code) { return FromFp16(code); }
};

}  // namespace causeway::compression::math

#endif  // CAUSEWAY_COMPRESSION_CASTS_H_
