// The kernels compiled for the baseline of the target machine; CMakeLists.txt holds the flags.
#include "compression/kernels/units.h"
#define CAUSEWAY_UNIT_NAME "generic"
#include "compression/kernels/kernels_impl.h"

namespace causeway::compression {

const KernelTable& KernelsGeneric() { return kTable; }

}  // namespace causeway::compression
