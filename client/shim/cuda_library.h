// The CUDA driver of this process, looked for when a trainer first says that its tensors are a
// GPU's.
//
// Loaded with dlopen and never unloaded: contexts outlive handles, and the framework has loaded it
// anyway. Any thread.
#pragma once

#include "client/shim/cuda_api.h"
#include "client/shim/failure.h"

namespace causeway::client::cuda {

// The calls, once initialised; CUDA names what is missing. The pointer is valid for ever.
Status Load(const Calls*& calls);

// CUDA, with the call's and the error's name.
Status FailureOf(const Calls& calls, Result result, const char* what);

}  // namespace causeway::client::cuda
