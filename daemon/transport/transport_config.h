// Checks of TransportConfig (transport.h). Pure; any thread.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_TRANSPORT_CONFIG_H_
#define CAUSEWAY_DAEMON_TRANSPORT_TRANSPORT_CONFIG_H_

#include "absl/status/status.h"
#include "daemon/transport/transport.h"

namespace causeway::transport {

// INVALID_ARGUMENT names the first field that is wrong, and why.
absl::Status CheckConfig(const TransportConfig& config);

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_TRANSPORT_CONFIG_H_
