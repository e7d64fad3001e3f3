// TLS policy: TLS 1.3 and nothing older, for the whole process.
//
// gRPC 1.51 has no call for a minimum version and accepts TLS 1.2, so the rule is set one layer
// below, in OpenSSL's process-wide configuration. It replaces the host's openssl.cnf in this
// process.
#ifndef CAUSEWAY_SECURITY_TLS_POLICY_H_
#define CAUSEWAY_SECURITY_TLS_POLICY_H_

#include "absl/status/status.h"

namespace causeway::security {

// Call once, on the main thread, before anything else uses OpenSSL or gRPC: OpenSSL reads its
// configuration once. FailedPrecondition when it was too late or had no effect; the caller must
// then not open a port.
absl::Status RequireTls13();

// The self-check alone: whether a context made now refuses TLS 1.2 and older.
absl::Status CheckTls13Only();

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_TLS_POLICY_H_
