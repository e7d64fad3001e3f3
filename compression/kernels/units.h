// The compiled units; dispatch.cc alone decides which of them may run here.
#ifndef CAUSEWAY_COMPRESSION_KERNELS_UNITS_H_
#define CAUSEWAY_COMPRESSION_KERNELS_UNITS_H_

#include "compression/kernels/kernels.h"

namespace causeway::compression {

const KernelTable& KernelsGeneric();
#if defined(__x86_64__)
const KernelTable& KernelsV2();
const KernelTable& KernelsV3();
const KernelTable& KernelsV4();
#endif

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_KERNELS_UNITS_H_
