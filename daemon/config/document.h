// A YAML document as a small tree with positions, read within fixed bounds.
//
// Thread: any. Keeps what the format check needs and yaml-cpp's own tree drops: the position of
// each key, duplicate keys, and whether a scalar was quoted. Refuses what a configuration has no
// use for: aliases (which can expand without bound), several documents, keys that are not words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/parse.h"

namespace causeway::config {

inline constexpr size_t kNodesMax = 100'000;
inline constexpr int kDepthMax = 16;

struct Position {
  int line = 0;  // from 1
  int column = 0;
};

struct Entry;

struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  Position position;
  std::string scalar;
  bool quoted = false;
  std::vector<Node> items;     // of a sequence
  std::vector<Entry> entries;  // of a map, in the file's order, duplicates included
};

struct Entry {
  std::string key;
  Position key_position;
  Node value;
};

// False, with at least one error added, where the text is no single well-formed document in bounds.
bool ReadDocument(std::string_view text, Node* root, std::vector<Diagnostic>* errors);

// "a map", "a list", "'text'", "nothing": for messages.
std::string Describe(const Node& node);

}  // namespace causeway::config
