// `--parameters`: the size of a model, for the commands that reckon with one.
#ifndef CAUSEWAY_DAEMON_CLI_MODEL_SIZE_H_
#define CAUSEWAY_DAEMON_CLI_MODEL_SIZE_H_

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace causeway::cli {

inline constexpr double kParametersMax = 4398046511104.0;  // 2^42, as proto/local_protocol.h

// Takes 350000000 as well as 3.5e8. `parameters` outlives the parse.
inline CLI::Option* AddParameters(CLI::App* command, std::optional<uint64_t>* parameters,
                                  const std::string& description) {
  return command
      ->add_option_function<double>(
          "--parameters",
          [parameters](double value) { *parameters = static_cast<uint64_t>(std::llround(value)); },
          description)
      ->check(CLI::Range(1.0, kParametersMax));
}

}  // namespace causeway::cli

#endif  // CAUSEWAY_DAEMON_CLI_MODEL_SIZE_H_
