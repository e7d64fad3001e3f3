// The kernels compiled for x86-64-v4; CMakeLists.txt holds the flags.
#include "compression/kernels/units.h"
#define CAUSEWAY_UNIT_NAME "v4"
#include "compression/kernels/kernels_impl.h"

namespace causeway::compression {

const KernelTable& KernelsV4() { return kTable; }

}  // namespace causeway::compression
