// Compiled and linked where NCCL is: the bridge's declarations are NCCL's own, and the library has
// them.
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "client/nccl/nccl_api.h"

namespace causeway::client::nccl {

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(kSuccess == ncclSuccess && kInProgress == ncclInProgress && kSum == ncclSum);
static_assert(kInt32 == ncclInt32 && kFloat16 == ncclFloat16 && kFloat32 == ncclFloat32 &&
              kBfloat16 == ncclBfloat16 && kScalarOfHost == ncclScalarHostImmediate);

// The same number of parameters, each of the same size; and a reference that must be linked.
template <typename Mine, typename Theirs>
struct SameCall : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...)> {};
#define SAME(member, function)                                             \
  static_assert(SameCall<decltype(Calls::member), decltype(&function)>()); \
  extern const void* const kLinked_##member;                               \
  const void* const kLinked_##member = reinterpret_cast<const void*>(&function);
SAME(error_string, ncclGetErrorString)
SAME(unique_id, ncclGetUniqueId)
SAME(initialise, ncclCommInitRankConfig)
SAME(async_error, ncclCommGetAsyncError)
SAME(finalise, ncclCommFinalize)
SAME(destroy, ncclCommDestroy)
SAME(abort, ncclCommAbort)
SAME(group_start, ncclGroupStart)
SAME(group_end, ncclGroupEnd)
SAME(broadcast, ncclBroadcast)
SAME(reduce, ncclReduce)
SAME(all_reduce, ncclAllReduce)
SAME(scaled_sum, ncclRedOpCreatePreMulSum)
SAME(drop_operation, ncclRedOpDestroy)
#undef SAME

}  // namespace causeway::client::nccl
