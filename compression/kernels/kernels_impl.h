// The body of one instruction-set unit: included once by each unit_*.cc, never elsewhere.
// Everything here has internal linkage (see block_math.h for why).
#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "compression/block_math.h"
#include "compression/casts.h"
#include "compression/codes.h"
#include "compression/kernels/kernels.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the chunk format is little-endian");

namespace causeway::compression {
namespace {

using namespace math;  // the element arithmetic, by its short names

// Order matters: later ones use earlier ones.
#include "compression/kernels/gather.inc"
//
#include "compression/kernels/casts.inc"
//
#include "compression/kernels/planes.inc"
//
#include "compression/kernels/blocks.inc"
#include "compression/kernels/means.inc"
//
#include "compression/kernels/cosine.inc"
//
#include "compression/kernels/matrices.inc"
//
#include "compression/kernels/checksums.inc"
#include "compression/kernels/vectors.inc"

constexpr KernelTable kTable = {
    CAUSEWAY_UNIT_NAME,
    {EncodeCast<Fp32Cast>, EncodeCast<Bf16Cast>, EncodeCast<Fp16Cast>, EncodeBlocks<IntegerCode<8>>,
     EncodeBlocks<IntegerCode<4>>, EncodeBlocks<Nf4Code>, EncodeBlocks<Fp8Code>,
     EncodeBlocks<Mxfp4Code>, EncodeBlocks<E3m0Code>, EncodeMeans<TwoLevelCode>,
     EncodeMeans<SignCode>, nullptr, nullptr, EncodeSplit<Bf16Cast>, EncodeSplit<Fp32Cast>,
     EncodeCosine, nullptr, nullptr},
    {DecodeCast<Fp32Cast>, DecodeCast<Bf16Cast>, DecodeCast<Fp16Cast>, DecodeBlocks<IntegerCode<8>>,
     DecodeBlocks<IntegerCode<4>>, DecodeBlocks<Nf4Code>, DecodeBlocks<Fp8Code>,
     DecodeBlocks<Mxfp4Code>, DecodeBlocks<E3m0Code>, DecodeMeans<TwoLevelCode>,
     DecodeMeans<SignCode>, nullptr, nullptr, DecodeSplit<Bf16Cast>, DecodeSplit<Fp32Cast>,
     DecodeCosine, nullptr, nullptr},
    Gather,
    LargestMagnitude32,
    LargestMagnitude16,
    Project,
    ProjectBack,
    Product,
    ConvertToBf16,
    ConvertFromBf16,
    ConvertToFp16,
    ConvertFromFp16,
    Scale,
    Subtract,
    Nesterov,
    ContentHash,
    Crc32c,
};

}  // namespace
}  // namespace causeway::compression
