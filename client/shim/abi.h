// What every entry point of the C ABI shares: no exception leaves it, and a failure stays for
// cw_last_error. Any thread.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "client/shim/failure.h"

namespace causeway::client {

// Keeps the failure as the calling thread's last error; its code.
int Report(const Status& status);

// The only exceptions that the library's code meets are for want of memory.
template <typename Function>
int Call(Function&& function) {
  try {
    return Report(function());
  } catch (const std::exception& problem) {
    return Report(
        Status(CW_MEMORY, std::string("out of memory in libcauseway: ") + problem.what()));
  }
}

// Structs begin with their size, so that later versions can append members.
template <typename T>
bool SizeFits(const T* given) {
  return given != nullptr && given->struct_bytes == sizeof(T);
}

inline Status WrongStruct(const char* name) {
  return Status(CW_ARGUMENT, std::string(name) + " is NULL, or its struct_bytes is not its size");
}

}  // namespace causeway::client
