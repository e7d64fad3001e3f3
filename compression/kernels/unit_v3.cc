// The kernels compiled for x86-64-v3; CMakeLists.txt holds the flags.
#include "compression/kernels/units.h"
#define CAUSEWAY_UNIT_NAME "v3"
#include "compression/kernels/kernels_impl.h"

namespace causeway::compression {

const KernelTable& KernelsV3() { return kTable; }

}  // namespace causeway::compression
