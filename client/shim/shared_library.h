// A library that may be absent, looked up at run time: libcauseway itself needs libc only.
//
// Any thread. What was found, or why nothing was, holds for the life of the process; the library is
// never unloaded.
#ifndef CAUSEWAY_CLIENT_SHIM_SHARED_LIBRARY_H_
#define CAUSEWAY_CLIENT_SHIM_SHARED_LIBRARY_H_

#include <dlfcn.h>

#include <cstring>
#include <utility>

#include "client/shim/failure.h"

namespace causeway::client {

// False: the library has no such symbol.
template <typename Function>
bool FindSymbol(void* library, const char* symbol, Function*& function) {
  void* const found = dlsym(library, symbol);
  static_assert(sizeof(found) == sizeof(function));
  std::memcpy(&function, &found, sizeof(found));
  return found != nullptr;
}

// `kLoad` is called once in the process; `calls` then points at what it filled, or its failure is
// returned, the same each time.
template <typename Calls, Status (*kLoad)(Calls&)>
Status LoadOnce(const Calls*& calls) {
  static const auto* const loaded = [] {
    auto* found = new std::pair<Calls, Status>;
    found->second = kLoad(found->first);
    return found;
  }();
  if (!loaded->second.ok()) return Status(loaded->second.failure());
  calls = &loaded->first;
  return Status();
}

}  // namespace causeway::client

#endif  // CAUSEWAY_CLIENT_SHIM_SHARED_LIBRARY_H_
