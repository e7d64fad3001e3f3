#include "daemon/config/suggest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace causeway::config {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > kSuggestBytesMax) return "";
  std::string best;
  size_t best_distance = word.size() / 3 + 2;  // exclusive
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kSuggestBytesMax) continue;
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(word, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

}  // namespace causeway::config
