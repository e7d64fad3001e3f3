#include "client/shim/cuda_library.h"

#include <dlfcn.h>

#include <string>

#include "client/shim/shared_library.h"

namespace causeway::client::cuda {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

Status LoadInto(Calls& calls) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Status(CW_CUDA, std::string("there is no CUDA driver here: ") + dlerror());
  }
  const char* missing = nullptr;
#define CAUSEWAY_CUDA_FIND(member, symbol, parameters) \
  if (!FindSymbol(library, symbol, calls.member)) missing = symbol;
  CAUSEWAY_CUDA_CALLS(CAUSEWAY_CUDA_FIND)
#undef CAUSEWAY_CUDA_FIND
  if (missing != nullptr) {
    return Status(CW_CUDA, std::string(kLibrary) + " has no " + missing +
                               ": the driver is older than CUDA 11.4");
  }
  if (const Result result = calls.init(0); result != 0) {
    return FailureOf(calls, result, "cuInit");
  }
  return Status();
}

}  // namespace

Status Load(const Calls*& calls) { return LoadOnce<Calls, LoadInto>(calls); }

Status FailureOf(const Calls& calls, Result result, const char* what) {
  const char* name = nullptr;
  if (calls.error_name(result, &name) != 0 || name == nullptr) name = "an unknown error";
  return Status(CW_CUDA,
                std::string(what) + " failed: " + name + " (" + std::to_string(result) + ")");
}

}  // namespace causeway::client::cuda
