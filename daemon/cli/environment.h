// What the commands take from the process that runs them, so that tests can give them something
// else.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>

namespace CLI {
class App;
}

namespace causeway::cli {

// Streams are borrowed and outlive the parse.
struct Environment {
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  std::function<int64_t()> now_s;  // Unix time
  bool terminal = false;           // `out` is one: a watched display may redraw it
};

// Each mounts its command on `app`. A callback that fails has written why to `err` and throws
// CLI::RuntimeError with an exit code of exit_codes.h.
void AddCheckConfigCommand(CLI::App& app, const Environment& environment);
void AddStatusCommand(CLI::App& app, const Environment& environment);
void AddRunCommands(CLI::App& app, const Environment& environment);
void AddPlanCommand(CLI::App& app, const Environment& environment);
void AddVersionCommand(CLI::App& app, const Environment& environment);

}  // namespace causeway::cli
