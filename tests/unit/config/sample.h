// A small valid configuration, and the same with lines changed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/parse.h"

namespace causeway::config::testing {

// Line numbers matter to the tests: one key a line.
inline const std::vector<std::string>& SampleLines() {
  static const std::vector<std::string> lines = {
      "cluster: paris",                                             // 1
      "listen: \"[::]:7443\"",                                      // 2
      "tls:",                                                       // 3
      "  certificate: /pki/gateway.pem",                            // 4
      "  key: /pki/gateway.key",                                    // 5
      "  authority: /pki/ca.pem",                                   // 6
      "peers:",                                                     // 7
      "  - {cluster: tokyo, address: \"tokyo.example.org:7443\"}",  // 8
      "  - cluster: oslo",                                          // 9
      "runs:",                                                      // 10
      "  - name: demo",                                             // 11
      "    clusters: [tokyo, paris]",                               // 12
      "    algorithm:",                                             // 13
      "      rule: nesterov",                                       // 14
      "      learning_rate: 0.7",                                   // 15
      "      momentum: 0.5",                                        // 16
      "      local_steps: 20",                                      // 17
      "      fragments: 4",                                         // 18
      "      delay: auto",                                          // 19
      "    codec: {kind: int4, error_feedback: true}",              // 20
  };
  return lines;
}

inline std::string Join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// The sample with line `number` (from 1) replaced.
inline std::string With(size_t number, std::string line) {
  std::vector<std::string> lines = SampleLines();
  lines.at(number - 1) = std::move(line);
  return Join(lines);
}

// The sample with one line more at its end (number 21), at the top level.
inline std::string WithTop(std::string line) {
  std::vector<std::string> lines = SampleLines();
  lines.push_back(std::move(line));
  return Join(lines);
}

inline ParseResult ParseSample(const std::string& text) {
  return ParseText(text, "f.yaml", {.check_files = false});
}

}  // namespace causeway::config::testing
