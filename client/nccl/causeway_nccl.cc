// The C ABI of the NCCL bridge: checks pointers, catches what C++ throws, keeps the thread's last
// error.
#include <new>

#include "client/nccl/bridge.h"
#include "client/shim/abi.h"

struct cw_nccl {
  std::unique_ptr<causeway::client::nccl::Bridge> bridge;
};

namespace {

using causeway::client::Call;
using causeway::client::SizeFits;
using causeway::client::Status;
using causeway::client::WrongStruct;

template <typename Function>
int WithBridge(cw_nccl* bridge, Function&& function) {
  return Call([&]() -> Status {
    if (bridge == nullptr) return Status(CW_ARGUMENT, "the bridge is NULL");
    return function(*bridge->bridge);
  });
}

}  // namespace

extern "C" {

int cw_nccl_open(const cw_nccl_options* options, cw_nccl** bridge) {
  return Call([&]() -> Status {
    if (bridge == nullptr) return Status(CW_ARGUMENT, "no place for the bridge");
    *bridge = nullptr;
    if (!SizeFits(options)) return WrongStruct("options");
    auto opened = std::make_unique<cw_nccl>();
    Status status = causeway::client::nccl::Bridge::Open(*options, opened->bridge);
    if (status.ok()) *bridge = opened.release();
    return status;
  });
}

int cw_nccl_reduce(cw_nccl* bridge, const cw_slice* slices, uint32_t slice_count) {
  return WithBridge(bridge, [&](auto& open) { return open.Reduce(slices, slice_count); });
}

int cw_nccl_collect(cw_nccl* bridge, cw_handle* handle, uint64_t op, int64_t timeout_ms, int mode,
                    float mix, const cw_slice* slices, uint32_t slice_count, cw_result* result) {
  return WithBridge(bridge, [&](auto& open) -> Status {
    if (result != nullptr && !SizeFits(result)) return WrongStruct("result");
    cw_result ignored{};
    return open.Collect(handle, op, timeout_ms, mode, mix, slices, slice_count,
                        result != nullptr ? *result : ignored);
  });
}

int cw_nccl_read(cw_nccl* bridge, cw_handle* handle, uint32_t fragment, int64_t round,
                 const cw_slice* slices, uint32_t slice_count) {
  return WithBridge(
      bridge, [&](auto& open) { return open.Read(handle, fragment, round, slices, slice_count); });
}

void cw_nccl_close(cw_nccl* bridge) { delete bridge; }

}  // extern "C"
