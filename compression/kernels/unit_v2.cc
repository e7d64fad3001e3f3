// The kernels compiled for x86-64-v2; CMakeLists.txt holds the flags.
#include "compression/kernels/units.h"
#define CAUSEWAY_UNIT_NAME "v2"
#include "compression/kernels/kernels_impl.h"

namespace causeway::compression {

const KernelTable& KernelsV2() { return kTable; }

}  // namespace causeway::compression
