// Reads the values of one map of the file, typed, and reports what is wrong with them.
//
// One thread; borrows the node and the findings. Every method that reads a key reports its own
// errors and then leaves the output as it was, so that one run over the file finds them all.
// Construction reports unknown and duplicate keys; destruction asserts that each key of the
// section's table was read.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/config/findings.h"

namespace causeway::config {

inline constexpr size_t kStringBytesMax = 4096;

// Where a value stands in the file, to report what later checks find.
struct Place {
  Position position;
  std::string key;  // "runs[0].seed"
};

class MapReader {
 public:
  // `path` is "" or as "runs[0].codec"; `section` the same with "[]" for indices.
  MapReader(const Node& node, std::string path, std::string_view section, Findings& findings);
  ~MapReader();
  MapReader(const MapReader&) = delete;
  MapReader& operator=(const MapReader&) = delete;

  // The value, or null where the key is absent or has no value (then reported). A missing required
  // key is reported.
  const Node* Take(std::string_view key);
  // As Take, for a value that must be a map or a list; other kinds are reported.
  const Node* TakeMap(std::string_view key);
  const Node* TakeList(std::string_view key);
  bool Has(std::string_view key) const;
  // Of the key's value; of the map itself where the key is absent.
  Place PlaceOf(std::string_view key) const;
  void String(std::string_view key, std::string* out);
  // A list of words. False: reported an error about the list as a whole.
  bool Strings(std::string_view key, size_t count_max, std::vector<std::string>* out,
               std::vector<Place>* places);
  void Bool(std::string_view key, bool* out);
  // False: reported an error.
  bool Integer(std::string_view key, int64_t min, int64_t max, int64_t* out);
  void Number(std::string_view key, double* out);
  void DurationMs(std::string_view key, int64_t min, int64_t max, int64_t* out);
  void SizeBytes(std::string_view key, int64_t min, int64_t max, int64_t* out);
  void RateBits(std::string_view key, int64_t min, int64_t max, int64_t* out);
  void Mode(std::string_view key, uint32_t* out);
  // One of `choices`; returns its index, or -1.
  int Choice(std::string_view key, const std::vector<std::string>& choices);

  // Reports about the key's value.
  void Error(std::string_view key, std::string message);
  void Warning(std::string_view key, std::string message);
  // Reports about the key, where it should not be there at all.
  void KeyError(std::string_view key, std::string message);
  std::string PathOf(std::string_view key) const;

 private:
  const Entry* Find(std::string_view key) const;
  // The text of a scalar; null where absent or something else (then reported).
  const Node* TakeScalar(std::string_view key);
  const Node* TakePlain(std::string_view key, std::string_view wanted);

  const Node& node_;
  const std::string path_;
  const std::string section_;
  Findings& findings_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace causeway::config
