#include "daemon/config/map_reader.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/config/keys.h"
#include "daemon/config/scalars.h"
#include "daemon/config/suggest.h"

namespace causeway::config {
namespace {

std::string Join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : absl::StrCat(path, ".", std::string(key));
}

bool Required(std::string_view section, std::string_view name) {
  for (const Key& key : Keys()) {
    if (key.section == section && key.name == name) return key.required;
  }
  assert(false && "a key that the table does not hold");
  return false;
}

// A key that is known, but in another section: "socket" at the top level.
std::string OtherHome(std::string_view section, std::string_view name) {
  std::vector<std::string> homes;
  for (const Key& key : Keys()) {
    if (key.name == name && key.section != section) {
      homes.push_back(Join(std::string(key.section), key.name));
    }
  }
  if (homes.empty() || homes.size() > 3) return "";
  return absl::StrCat("; there is ", absl::StrJoin(homes, ", "));
}

void ReportUnknown(const Entry& entry, const std::string& path, const std::string& section,
                   Findings& findings) {
  const std::vector<std::string> known = KeysOf(section);
  if (std::find(known.begin(), known.end(), entry.key) != known.end()) return;
  std::string hint = OtherHome(section, entry.key);
  if (hint.empty()) hint = DidYouMean(entry.key, known);
  if (hint.empty()) hint = absl::StrCat("; known here: ", absl::StrJoin(known, ", "));
  findings.Error(entry.key_position, Join(path, entry.key.substr(0, kSuggestBytesMax)),
                 absl::StrCat("unknown key", hint));
}

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

MapReader::MapReader(const Node& node, std::string path, std::string_view section,
                     Findings& findings)
    : node_(node), path_(std::move(path)), section_(section), findings_(findings) {
  assert(node.kind == Node::Kind::kMap);
  for (size_t i = 0; i < node.entries.size(); ++i) {
    const Entry& entry = node.entries[i];
    ReportUnknown(entry, path_, section_, findings_);
    const Entry* first = Find(entry.key);
    if (first != &entry) {
      findings_.Error(entry.key_position, Join(path_, entry.key),
                      absl::StrCat("duplicate key; first on line ", first->key_position.line,
                                   "; remove one of them"));
    }
  }
}

MapReader::~MapReader() {
  if (std::uncaught_exceptions() > 0) return;
  for ([[maybe_unused]] const std::string& name : KeysOf(section_)) {
    assert(taken_.count(name) == 1 && "a key of the table that the parser does not read");
  }
}

const Entry* MapReader::Find(std::string_view key) const {
  for (const Entry& entry : node_.entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::string MapReader::PathOf(std::string_view key) const { return Join(path_, key); }

bool MapReader::Has(std::string_view key) const { return Find(key) != nullptr; }

Place MapReader::PlaceOf(std::string_view key) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return {node_.position, PathOf(key)};
  // A missing value is reported by yaml-cpp at whatever follows: the key is the better place.
  const bool null = entry->value.kind == Node::Kind::kNull;
  return {null ? entry->key_position : entry->value.position, PathOf(key)};
}

void MapReader::KeyError(std::string_view key, std::string message) {
  const Entry* entry = Find(key);
  findings_.Error(entry == nullptr ? node_.position : entry->key_position, PathOf(key),
                  std::move(message));
}

void MapReader::Error(std::string_view key, std::string message) {
  const Place place = PlaceOf(key);
  findings_.Error(place.position, place.key, std::move(message));
}

void MapReader::Warning(std::string_view key, std::string message) {
  const Place place = PlaceOf(key);
  findings_.Warning(place.position, place.key, std::move(message));
}

const Node* MapReader::Take(std::string_view key) {
  taken_.emplace(key);
  const Entry* entry = Find(key);
  if (entry == nullptr) {
    if (Required(section_, key)) Error(key, "missing; this key is required");
    return nullptr;
  }
  if (entry->value.kind == Node::Kind::kNull) {
    Error(key, "has no value; write one or remove the key");
    return nullptr;
  }
  return &entry->value;
}

const Node* MapReader::TakeMap(std::string_view key) {
  const Node* node = Take(key);
  if (node == nullptr || node->kind == Node::Kind::kMap) return node;
  Error(key, absl::StrCat("expected a map of keys, not ", Describe(*node)));
  return nullptr;
}

const Node* MapReader::TakeList(std::string_view key) {
  const Node* node = Take(key);
  if (node == nullptr || node->kind == Node::Kind::kSequence) return node;
  Error(key, absl::StrCat("expected a list, as [a, b] or lines that begin with '- ', not ",
                          Describe(*node)));
  return nullptr;
}

const Node* MapReader::TakeScalar(std::string_view key) {
  const Node* node = Take(key);
  if (node == nullptr) return nullptr;
  if (node->kind != Node::Kind::kScalar) {
    Error(key, absl::StrCat("expected a single value, not ", Describe(*node)));
    return nullptr;
  }
  if (node->scalar.size() > kStringBytesMax) {
    Error(key, absl::StrCat("longer than ", kStringBytesMax, " bytes"));
    return nullptr;
  }
  if (HasControlCharacter(node->scalar)) {
    Error(key, "contains a control character");
    return nullptr;
  }
  return node;
}

const Node* MapReader::TakePlain(std::string_view key, std::string_view wanted) {
  const Node* node = TakeScalar(key);
  if (node == nullptr || !node->quoted) return node;
  Error(key,
        absl::StrCat("expected ", std::string(wanted), ", not quoted text; remove the quotes"));
  return nullptr;
}

void MapReader::String(std::string_view key, std::string* out) {
  const Node* node = TakeScalar(key);
  if (node == nullptr) return;
  if (node->scalar.empty()) {
    Error(key, "is empty; write a value or remove the key");
    return;
  }
  *out = node->scalar;
}

bool MapReader::Strings(std::string_view key, size_t count_max, std::vector<std::string>* out,
                        std::vector<Place>* places) {
  const Node* list = TakeList(key);
  if (list == nullptr) return !Has(key) && !Required(section_, key);
  if (list->items.size() > count_max) {
    Error(key, absl::StrCat(list->items.size(), " entries; at most ", count_max, " are allowed"));
    return false;
  }
  for (size_t i = 0; i < list->items.size(); ++i) {
    const Node& item = list->items[i];
    const Place place{item.position, absl::StrCat(PathOf(key), "[", i, "]")};
    if (item.kind != Node::Kind::kScalar || item.scalar.empty() ||
        item.scalar.size() > kStringBytesMax || HasControlCharacter(item.scalar)) {
      findings_.Error(place.position, place.key,
                      absl::StrCat("expected a word, not ", Describe(item)));
      continue;
    }
    out->push_back(item.scalar);
    places->push_back(place);
  }
  return true;
}

namespace {

// Reports a failed conversion, or a value out of [min, max] in the words of `format`.
template <typename T, typename Format>
bool InRange(MapReader& reader, std::string_view key, const absl::StatusOr<T>& value, T min, T max,
             Format format) {
  if (!value.ok()) {
    reader.Error(key, std::string(value.status().message()));
    return false;
  }
  if (*value < min || *value > max) {
    reader.Error(key, absl::StrCat(format(*value), " is out of range; allowed: ", format(min),
                                   " to ", format(max)));
    return false;
  }
  return true;
}

}  // namespace

void MapReader::Bool(std::string_view key, bool* out) {
  const Node* node = TakePlain(key, "true or false");
  if (node == nullptr) return;
  const absl::StatusOr<bool> value = ParseBool(node->scalar);
  if (value.ok()) {
    *out = *value;
  } else {
    Error(key, std::string(value.status().message()));
  }
}

bool MapReader::Integer(std::string_view key, int64_t min, int64_t max, int64_t* out) {
  const Node* node = TakePlain(key, "a whole number");
  if (node == nullptr) return !Has(key) && !Required(section_, key);
  const absl::StatusOr<int64_t> value = ParseInteger(node->scalar);
  if (!InRange(*this, key, value, min, max, [](int64_t v) { return absl::StrCat(v); }))
    return false;
  *out = *value;
  return true;
}

void MapReader::Number(std::string_view key, double* out) {
  const Node* node = TakePlain(key, "a number");
  if (node == nullptr) return;
  const absl::StatusOr<double> value = ParseNumber(node->scalar);
  if (value.ok()) {
    *out = *value;
  } else {
    Error(key, std::string(value.status().message()));
  }
}

void MapReader::DurationMs(std::string_view key, int64_t min, int64_t max, int64_t* out) {
  const Node* node = TakeScalar(key);
  if (node == nullptr) return;
  const absl::StatusOr<int64_t> value = ParseDurationMs(node->scalar);
  if (InRange(*this, key, value, min, max, FormatDurationMs)) *out = *value;
}

void MapReader::SizeBytes(std::string_view key, int64_t min, int64_t max, int64_t* out) {
  const Node* node = TakeScalar(key);
  if (node == nullptr) return;
  const absl::StatusOr<int64_t> value = ParseSizeBytes(node->scalar);
  if (InRange(*this, key, value, min, max, FormatSizeBytes)) *out = *value;
}

void MapReader::RateBits(std::string_view key, int64_t min, int64_t max, int64_t* out) {
  const Node* node = TakeScalar(key);
  if (node == nullptr) return;
  const absl::StatusOr<int64_t> value = ParseRateBits(node->scalar);
  if (InRange(*this, key, value, min, max, FormatRateBits)) *out = *value;
}

void MapReader::Mode(std::string_view key, uint32_t* out) {
  const Node* node = TakeScalar(key);
  if (node == nullptr) return;
  const absl::StatusOr<uint32_t> value = ParseMode(node->scalar);
  if (!value.ok()) {
    Error(key, std::string(value.status().message()));
  } else if (*value > 0777) {
    Error(key, absl::StrCat("'", node->scalar, "' sets bits beyond 0777"));
  } else {
    *out = *value;
  }
}

int MapReader::Choice(std::string_view key, const std::vector<std::string>& choices) {
  const Node* node = TakeScalar(key);
  if (node == nullptr) return -1;
  const auto found = std::find(choices.begin(), choices.end(), node->scalar);
  if (found != choices.end()) return static_cast<int>(found - choices.begin());
  std::string hint = DidYouMean(node->scalar, choices);
  Error(key, absl::StrCat(Describe(*node), " is not one of ", absl::StrJoin(choices, ", "), hint));
  return -1;
}

}  // namespace causeway::config
