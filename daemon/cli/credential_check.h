// Whether the certificates that a configuration names would serve: key, chain, dates, identity.
//
// Reads files; the caller passes the time.
#pragma once

#include <cstdint>

#include "daemon/config/parse.h"

namespace causeway::cli {

// Adds to the result's errors (and takes its config away) or warnings. Nothing is done to a result
// that has errors already.
void CheckCredentials(int64_t now_s, config::ParseResult* result);

}  // namespace causeway::cli
