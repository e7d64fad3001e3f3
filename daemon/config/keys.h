// The table of every key that a configuration may hold. The parser refuses what is not here and
// asserts that it reads what is. Constant data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace causeway::config {

struct Key {
  std::string_view section;  // "", "tls", "peers[]", "runs[].algorithm", ...
  std::string_view name;
  bool required;
};

const std::vector<Key>& Keys();

// The names of one section.
std::vector<std::string> KeysOf(std::string_view section);

}  // namespace causeway::config
