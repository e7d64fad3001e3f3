// "did you mean": the known word nearest to a mistyped one. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace causeway::config {

inline constexpr size_t kSuggestBytesMax =
    64;  // longer words get no suggestion: the work is quadratic

// Insertions, deletions, replacements and swaps of neighbours between two words (optimal string
// alignment).
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate within about a third of the word's length; empty where none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'x'?", or an empty string.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace causeway::config
