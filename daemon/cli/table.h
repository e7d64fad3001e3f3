// Aligned columns of text, and numbers as people read them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace causeway::cli {

// Columns as wide as their widest cell, two spaces between, no trailing blanks. Rows may be shorter
// than the heading. Control characters of cells become '?': they come from peers.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) : rows_{std::move(heading)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  std::string Format() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string Printable(std::string text);
std::string FormatCount(uint64_t count);                      // 25,000,000
std::string Plural(uint64_t count, const std::string& noun);  // 1 round, 2 rounds
std::string FormatSeconds(double seconds);                    // 0.4s, 35s, 2m 5s, 3h 10m, 12d 3h

}  // namespace causeway::cli
