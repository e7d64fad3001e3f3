// The example configuration is valid, warns of nothing, and shows every key that the parser knows.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "daemon/config/document.h"
#include "daemon/config/parse.h"

namespace causeway::config {
namespace {

const std::string kExample = CAUSEWAY_DEPLOY "/config/causeway.yaml";

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void Collect(const Node& node, const std::string& path, std::set<std::string>* keys) {
  for (const Node& item : node.items) {
    if (item.kind == Node::Kind::kMap) Collect(item, path + "[]", keys);
  }
  for (const Entry& entry : node.entries) {
    const std::string key = path.empty() ? entry.key : path + "." + entry.key;
    keys->insert(key);
    Collect(entry.value, key, keys);
  }
}

TEST_CASE("the example is valid") {
  const ParseResult result = Parse(kExample, {.check_files = false});
  INFO(result.ErrorText() << result.WarningText());
  REQUIRE(result.ok());
  CHECK(result.warnings.empty());
}

TEST_CASE("the example shows every key") {
  Node root;
  std::vector<Diagnostic> errors;
  REQUIRE(ReadDocument(ReadAll(kExample), &root, &errors));
  std::set<std::string> shown;
  Collect(root, "", &shown);
  const std::vector<std::string> known = KnownKeys();
  CHECK(shown == std::set<std::string>(known.begin(), known.end()));
}

TEST_CASE("the example's top-level values are the defaults it calls so") {
  const ParseResult result = Parse(kExample, {.check_files = false});
  REQUIRE(result.ok());
  const Config defaults;
  const Config& example = *result.config;
  CHECK(example.domain == defaults.domain);
  CHECK(example.listen == defaults.listen);
  CHECK(example.trainers.socket == defaults.trainers.socket);
  CHECK(example.trainers.mode == defaults.trainers.mode);
  CHECK(example.peer_timeout_ms == defaults.peer_timeout_ms);
  CHECK(example.lanes == defaults.lanes);
  CHECK(example.workers == defaults.workers);
  CHECK(example.memory_bytes == defaults.memory_bytes);
  CHECK(example.admin_socket == defaults.admin_socket);
  CHECK(example.state_directory == defaults.state_directory);
  CHECK(example.log_level == defaults.log_level);
  CHECK(example.log_format == defaults.log_format);
}

TEST_CASE("each key of the example has its explanation") {
  // A comment on the key's own line, or a line above it that is a comment or another explained key.
  std::istringstream text(ReadAll(kExample));
  std::string line;
  std::string above;
  int comments = 0;
  while (std::getline(text, line)) {
    comments += line.find('#') != std::string::npos ? 1 : 0;
    const bool top_key = !line.empty() && line[0] >= 'a' && line[0] <= 'z';
    if (top_key) {
      INFO(line);
      CHECK(above.rfind("#", 0) == 0);
    }
    above = line;
  }
  CHECK(comments >= static_cast<int>(KnownKeys().size()));
}

}  // namespace
}  // namespace causeway::config
