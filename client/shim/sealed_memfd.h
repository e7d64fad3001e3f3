// A memfd with bytes that nobody can change any more, to hand to the gateway. Any thread.
#pragma once

#include <cstddef>

#include "client/shim/descriptor.h"
#include "client/shim/failure.h"

namespace causeway::client {

// MEMORY names `name` where the system has none.
Status SealedMemfd(const char* name, const void* bytes, size_t size, Descriptor& memfd);

}  // namespace causeway::client
