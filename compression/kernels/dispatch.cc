// Chooses the unit of kernels that this CPU runs.
#include "compression/kernels/kernels.h"
#include "compression/kernels/units.h"

namespace causeway::compression {

const KernelTable* KernelsFor(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return &KernelsGeneric();
#if defined(__x86_64__)
    case Isa::kV2:
      return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") ? &KernelsV2()
                                                                                  : nullptr;
    case Isa::kV3:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
                     __builtin_cpu_supports("fma")
                 ? &KernelsV3()
                 : nullptr;
    case Isa::kV4:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512vl")
                 ? &KernelsV4()
                 : nullptr;
#endif
    default:
      return nullptr;
  }
}

namespace {

const KernelTable& Choose() {
  for (Isa isa : {Isa::kV4, Isa::kV3, Isa::kV2}) {
    if (const KernelTable* table = KernelsFor(isa)) return *table;
  }
  return KernelsGeneric();
}

}  // namespace

const KernelTable& ActiveKernels() {
  static const KernelTable& table = Choose();
  return table;
}

}  // namespace causeway::compression
