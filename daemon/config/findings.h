// Collects what a check of one file finds. One thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/document.h"
#include "daemon/config/parse.h"

namespace causeway::config {

class Findings {
 public:
  void Error(Position position, std::string key, std::string message) {
    errors_.push_back({position.line, position.column, std::move(key), std::move(message)});
  }
  void Warning(Position position, std::string key, std::string message) {
    warnings_.push_back({position.line, position.column, std::move(key), std::move(message)});
  }
  std::vector<Diagnostic>& errors() { return errors_; }
  std::vector<Diagnostic>& warnings() { return warnings_; }

 private:
  std::vector<Diagnostic> errors_;
  std::vector<Diagnostic> warnings_;
};

}  // namespace causeway::config
