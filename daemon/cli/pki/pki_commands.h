// `causeway pki`: the arguments of init, issue, request, sign and show.
//
// One thread, the command's. Results go to `out`, errors to `err`; the work is in pki_store.h and
// pki_report.h.
#ifndef CAUSEWAY_DAEMON_CLI_PKI_PKI_COMMANDS_H_
#define CAUSEWAY_DAEMON_CLI_PKI_PKI_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <iosfwd>

namespace CLI {
class App;
}

namespace causeway::cli {

inline constexpr char kPkiDirectory[] = "/etc/causeway/pki";
inline constexpr char kPkiDomain[] = "causeway.internal";

// Streams are borrowed and outlive the parse.
struct PkiEnvironment {
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  std::function<int64_t()> now_s;  // Unix time
};

// Mounts `pki` and its subcommands on `app`, each with its callback. A callback that fails has
// written one line to `err` and throws CLI::RuntimeError with the exit code: 64 usage, 70 bug,
// 74 I/O, 77 permission, 78 a certificate or authority that does not fit.
void AddPkiCommands(CLI::App& app, const PkiEnvironment& environment);

}  // namespace causeway::cli

#endif  // CAUSEWAY_DAEMON_CLI_PKI_PKI_COMMANDS_H_
