// What the bridge calls of NCCL, declared here so that it is built where NCCL is not; its own
// names, types and numbers. tests/unit/client/nccl_header_check.cc holds them against nccl.h where
// there is one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client/shim/cuda_api.h"
#include "client/shim/failure.h"

namespace causeway::client::nccl {

using Result = int;
using Communicator = struct CommunicatorHandle*;
using DataType = int;
using Operation = int;

struct UniqueId {
  char bytes[128];
};

// The first members of ncclConfig_t, which is all of it in the version that it names.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

inline constexpr Result kSuccess = 0;
inline constexpr Result kInProgress = 7;
inline constexpr Operation kSum = 0;
inline constexpr int kScalarOfHost = 1;
inline constexpr DataType kInt32 = 2, kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9;

#define CAUSEWAY_NCCL_CALLS(X)                                                                  \
  X(error_string, const char*, "ncclGetErrorString", (Result))                                  \
  X(unique_id, Result, "ncclGetUniqueId", (UniqueId*))                                          \
  X(initialise, Result, "ncclCommInitRankConfig", (Communicator*, int, UniqueId, int, Config*)) \
  X(async_error, Result, "ncclCommGetAsyncError", (Communicator, Result*))                      \
  X(finalise, Result, "ncclCommFinalize", (Communicator))                                       \
  X(destroy, Result, "ncclCommDestroy", (Communicator))                                         \
  X(abort, Result, "ncclCommAbort", (Communicator))                                             \
  X(group_start, Result, "ncclGroupStart", ())                                                  \
  X(group_end, Result, "ncclGroupEnd", ())                                                      \
  X(broadcast, Result, "ncclBroadcast",                                                         \
    (const void*, void*, size_t, DataType, int, Communicator, cuda::Stream))                    \
  X(reduce, Result, "ncclReduce",                                                               \
    (const void*, void*, size_t, DataType, Operation, int, Communicator, cuda::Stream))         \
  X(all_reduce, Result, "ncclAllReduce",                                                        \
    (const void*, void*, size_t, DataType, Operation, Communicator, cuda::Stream))              \
  X(scaled_sum, Result, "ncclRedOpCreatePreMulSum",                                             \
    (Operation*, void*, DataType, int, Communicator))                                           \
  X(drop_operation, Result, "ncclRedOpDestroy", (Operation, Communicator))

struct Calls {
#define CAUSEWAY_NCCL_MEMBER(member, result, symbol, parameters) \
  result(*member) parameters = nullptr;
  CAUSEWAY_NCCL_CALLS(CAUSEWAY_NCCL_MEMBER)
#undef CAUSEWAY_NCCL_MEMBER
};

// The process's NCCL, by the name that frameworks load it under; CUDA where there is none.
Status Load(const Calls*& calls);

}  // namespace causeway::client::nccl
