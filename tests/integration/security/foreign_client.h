// ForeignClient: `openssl s_client`, a TLS client that shares no line with ours.
#ifndef CAUSEWAY_TESTS_INTEGRATION_SECURITY_FOREIGN_CLIENT_H_
#define CAUSEWAY_TESTS_INTEGRATION_SECURITY_FOREIGN_CLIENT_H_

#include <string>
#include <vector>

namespace causeway::testing {

// Runs `openssl s_client -connect 127.0.0.1:PORT ARGUMENTS` and gives back all it printed. Its
// input stays open, and with it the connection, until the peer closes or `until` was printed (when
// not empty). Killed, and the test failed, after 30 s.
std::string RunForeignClient(int port, const std::vector<std::string>& arguments,
                             const std::string& until = "");

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_INTEGRATION_SECURITY_FOREIGN_CLIENT_H_
