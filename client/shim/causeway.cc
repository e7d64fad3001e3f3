// The C ABI: checks pointers and struct sizes, catches what C++ throws, keeps the thread's last
// error.
#include "client/include/causeway.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "client/shim/abi.h"
#include "client/shim/failure.h"
#include "client/shim/schema.h"
#include "client/shim/session.h"
#include "proto/local_protocol.h"

struct cw_handle {
  explicit cw_handle(causeway::client::Identity identity) : session(std::move(identity)) {}
  causeway::client::Session session;
};

namespace causeway::client {
namespace {

constexpr char kDefaultSocket[] = "/run/causeway/trainer.sock";

thread_local cw_error last_error{};

template <size_t N>
void CopyText(const std::string& text, char (&out)[N]) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), size);
  std::memset(out + size, 0, N - size);
}

}  // namespace

int Report(const Status& status) {
  if (status.ok()) return CW_OK;
  const Failure& failure = status.failure();
  last_error.code = failure.code;
  last_error.retryable = failure.retryable ? 1 : 0;
  last_error.rank = failure.rank;
  last_error.round = failure.round;
  CopyText(failure.cluster, last_error.cluster);
  CopyText(failure.tensor, last_error.tensor);
  CopyText(failure.text, last_error.text);
  return failure.code;
}

namespace {

template <typename Function>
int WithSession(cw_handle* handle, Function&& function) {
  if (handle == nullptr) return Report(Status(CW_ARGUMENT, "the handle is NULL"));
  return Call([&] { return function(handle->session); });
}

Status IdentityOf(const cw_options& options, Identity& identity) {
  if (options.run == nullptr || *options.run == 0) return Status(CW_ARGUMENT, "no run is named");
  identity.run = options.run;
  if (identity.run.size() > local::kRunNameMax) {
    return Status(CW_ARGUMENT,
                  "the run's name is longer than " + std::to_string(local::kRunNameMax) + " bytes");
  }
  const char* environment = std::getenv("CAUSEWAY_SOCKET");
  if (options.socket_path != nullptr) {
    identity.socket_path = options.socket_path;
  } else {
    identity.socket_path =
        environment != nullptr && *environment != 0 ? environment : kDefaultSocket;
  }
  identity.rank = options.rank;
  identity.world = options.world == 0 ? 1 : options.world;
  if (identity.world > local::kRanksMax || identity.rank >= identity.world) {
    return Status(CW_ARGUMENT, "rank " + std::to_string(identity.rank) + " of " +
                                   std::to_string(identity.world) + " is no rank");
  }
  return Status();
}

}  // namespace
}  // namespace causeway::client

using causeway::client::Call;
using causeway::client::SizeFits;
using causeway::client::Status;
using causeway::client::WithSession;
using causeway::client::WrongStruct;

extern "C" {

uint32_t cw_abi_version(void) { return CW_ABI_VERSION; }

void cw_last_error(cw_error* error) {
  if (error != nullptr) *error = causeway::client::last_error;
}

int cw_open(const cw_options* options, cw_handle** handle) {
  if (handle != nullptr) *handle = nullptr;
  return Call([&]() -> Status {
    if (!SizeFits(options)) return WrongStruct("options");
    if (handle == nullptr) return Status(CW_ARGUMENT, "no place for the handle");
    causeway::client::Identity identity;
    if (Status status = causeway::client::IdentityOf(*options, identity); !status.ok())
      return status;
    auto opened = std::make_unique<cw_handle>(std::move(identity));
    if (Status status = opened->session.Open(options->connect_timeout_ms); !status.ok())
      return status;
    *handle = opened.release();
    return Status();
  });
}

int cw_join(cw_handle* handle, const cw_join_options* options, const cw_tensor* tensors,
            uint32_t tensor_count, cw_layout* layout) {
  return WithSession(handle, [&](auto& session) -> Status {
    if (!SizeFits(options)) return WrongStruct("options");
    if (layout != nullptr && !SizeFits(layout)) return WrongStruct("layout");
    if (options->init > CW_INIT_MATCH || options->outer > 1) {
      return Status(CW_ARGUMENT, "options: unknown init or outer");
    }
    causeway::client::Schema schema;
    Status status = causeway::client::Schema::Build(tensors, tensor_count, schema);
    if (status.ok()) status = session.Join(*options, std::move(schema));
    if (status.ok() && layout != nullptr) status = session.LayoutOf(*layout);
    return status;
  });
}

int cw_fragment_of(cw_handle* handle, uint32_t fragment, cw_fragment* out) {
  return WithSession(handle, [&](auto& session) {
    return out == nullptr ? Status(CW_ARGUMENT, "out is NULL") : session.FragmentOf(fragment, *out);
  });
}

int cw_placement_of(cw_handle* handle, uint32_t tensor, cw_placement* out) {
  return WithSession(handle, [&](auto& session) {
    return out == nullptr ? Status(CW_ARGUMENT, "out is NULL") : session.PlacementOf(tensor, *out);
  });
}

int cw_cuda_use(cw_handle* handle, const cw_cuda* cuda, int* shared) {
  return WithSession(handle, [&](auto& session) -> Status {
    if (!SizeFits(cuda)) return WrongStruct("cuda");
    bool is_shared = false;
    Status status = session.UseCuda(*cuda, is_shared);
    if (status.ok() && shared != nullptr) *shared = is_shared ? 1 : 0;
    return status;
  });
}

int cw_offer(cw_handle* handle, const cw_slice* slices, uint32_t slice_count) {
  return WithSession(handle, [&](auto& session) { return session.Offer(slices, slice_count); });
}

int cw_ready(cw_handle* handle, int64_t timeout_ms, int* start, uint32_t* members) {
  return WithSession(handle, [&](auto& session) -> Status {
    if (start == nullptr) return Status(CW_ARGUMENT, "start is NULL");
    uint32_t count = 0;
    Status status = session.Ready(timeout_ms, *start, count);
    if (status.ok() && members != nullptr) *members = count;
    return status;
  });
}

int cw_submit(cw_handle* handle, const cw_submission* submission, const cw_slice* slices,
              uint32_t slice_count, uint64_t* op) {
  return WithSession(handle, [&](auto& session) -> Status {
    if (!SizeFits(submission)) return WrongStruct("submission");
    if (op == nullptr) return Status(CW_ARGUMENT, "op is NULL");
    return session.Submit(*submission, slices, slice_count, *op);
  });
}

int cw_test(cw_handle* handle, uint64_t op, cw_result* result) {
  return WithSession(handle, [&](auto& session) {
    return SizeFits(result) ? session.Test(op, *result) : WrongStruct("result");
  });
}

int cw_wait(cw_handle* handle, uint64_t op, int64_t timeout_ms, cw_result* result) {
  return WithSession(handle, [&](auto& session) -> Status {
    if (result != nullptr && !SizeFits(result)) return WrongStruct("result");
    cw_result ignored{};
    return session.Wait(op, timeout_ms, result != nullptr ? *result : ignored);
  });
}

int cw_poll_fd(cw_handle* handle) {
  return handle == nullptr ? -1 : handle->session.PollDescriptor();
}

int cw_apply(cw_handle* handle, uint64_t op, int mode, float mix, const cw_slice* slices,
             uint32_t slice_count) {
  return WithSession(
      handle, [&](auto& session) { return session.Apply(op, mode, mix, slices, slice_count); });
}

int cw_read(cw_handle* handle, uint32_t fragment, int64_t round, const cw_slice* slices,
            uint32_t slice_count) {
  return WithSession(
      handle, [&](auto& session) { return session.Read(fragment, round, slices, slice_count); });
}

int cw_applied(cw_handle* handle, uint32_t fragment, int64_t round) {
  return WithSession(handle, [&](auto& session) { return session.Applied(fragment, round); });
}

int cw_abandon(cw_handle* handle, uint64_t op) {
  return WithSession(handle, [&](auto& session) { return session.Abandon(op); });
}

int cw_await_text(cw_handle* handle, uint64_t op, char* text, size_t text_bytes) {
  return WithSession(handle, [&](auto& session) -> Status {
    if (text == nullptr || text_bytes == 0) return Status(CW_ARGUMENT, "no place for the text");
    std::string answer;
    Status status = session.AwaitText(op, answer);
    const size_t size = std::min(answer.size(), text_bytes - 1);
    std::memcpy(text, answer.data(), size);
    text[size] = 0;
    return status;
  });
}

int cw_reconnect(cw_handle* handle, int64_t timeout_ms) {
  return WithSession(handle, [&](auto& session) { return session.Reconnect(timeout_ms); });
}

int cw_finish(cw_handle* handle, int64_t timeout_ms, uint8_t* values_hash) {
  return WithSession(handle,
                     [&](auto& session) { return session.Finish(timeout_ms, values_hash); });
}

int cw_leave(cw_handle* handle) {
  return WithSession(handle, [](auto& session) { return session.Leave(); });
}

void cw_close(cw_handle* handle) { delete handle; }

}  // extern "C"
