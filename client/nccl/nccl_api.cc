#include "client/nccl/nccl_api.h"

#include <dlfcn.h>

#include <string>

#include "client/shim/shared_library.h"

namespace causeway::client::nccl {
namespace {

constexpr char kLibrary[] = "libnccl.so.2";

Status LoadInto(Calls& calls) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Status(CW_CUDA, std::string("there is no NCCL here: ") + dlerror());
  const char* missing = nullptr;
#define CAUSEWAY_NCCL_FIND(member, result, symbol, parameters) \
  if (!FindSymbol(library, symbol, calls.member)) missing = symbol;
  CAUSEWAY_NCCL_CALLS(CAUSEWAY_NCCL_FIND)
#undef CAUSEWAY_NCCL_FIND
  if (missing == nullptr) return Status();
  return Status(CW_CUDA, std::string(kLibrary) + " has no " + missing +
                             ": it is older than 2.14, whose communicators need not block");
}

}  // namespace

Status Load(const Calls*& calls) { return LoadOnce<Calls, LoadInto>(calls); }

}  // namespace causeway::client::nccl
