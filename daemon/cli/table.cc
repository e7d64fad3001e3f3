#include "daemon/cli/table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace causeway::cli {

std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string Table::Format() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = Printable(row[i]);
      absl::StrAppend(&line, cell, std::string(widths[i] - cell.size() + 2, ' '));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string FormatCount(uint64_t count) {
  std::string digits = absl::StrCat(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string Plural(uint64_t count, const std::string& noun) {
  return absl::StrCat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 10) return absl::StrFormat("%.1fs", seconds);
  const auto s = static_cast<int64_t>(seconds);
  if (s < 100) return absl::StrFormat("%ds", s);
  if (s < 3600) return absl::StrFormat("%dm %ds", s / 60, s % 60);
  if (s < 86400) return absl::StrFormat("%dh %dm", s / 3600, s / 60 % 60);
  return absl::StrFormat("%dd %dh", s / 86400, s / 3600 % 24);
}

}  // namespace causeway::cli
