// A run's codec, fixed or chosen from a ladder by what the link hides, and the way that its
// contributions go.
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/config/sections.h"
#include "daemon/config/suggest.h"
#include "daemon/planning/ladder.h"

namespace causeway::config {
namespace {

constexpr char kAuto[] = "auto";
constexpr char kLeastDefault[] = "fp32";
constexpr char kMostDefault[] = "int4";  // what training at this scale does not notice

// `min` or `max`: a rung of the ladder.
bool ReadRung(MapReader& reader, std::string_view key, std::string* rung) {
  reader.String(key, rung);
  const std::vector<std::string> rungs = planning::LadderNames();
  for (const std::string& known : rungs) {
    if (known == *rung) return true;
  }
  reader.Error(key, absl::StrCat("'", *rung, "' is nothing that auto chooses; it chooses from ",
                                 absl::StrJoin(rungs, ", "), DidYouMean(*rung, rungs)));
  return false;
}

void ReadAuto(MapReader& reader, std::optional<bool> feedback, Codec* codec) {
  std::string least = kLeastDefault;
  std::string most = kMostDefault;
  const bool good_least = ReadRung(reader, "min", &least);
  if (!ReadRung(reader, "max", &most) || !good_least) return;
  const auto ladder = planning::Ladder(least, most, feedback.value_or(true));
  if (!ladder.ok()) {
    reader.Error("max", absl::StrCat("'", most, "' is less lossy than min, '", least,
                                     "'; exchange the two"));
    return;
  }
  *codec = Codec{ladder->back().ToString(), ladder->back().error_feedback, false, {}};
  for (const compression::CodecSpec& rung : *ladder) codec->ladder.push_back(rung.ToString());
}

void ReadFixed(MapReader& reader, const std::string& kind, std::optional<bool> feedback,
               Codec* codec) {
  for (const std::string_view key : {"min", "max"}) {
    if (reader.Has(key)) reader.KeyError(key, "only kind auto has it; remove it or set kind: auto");
    reader.Take(key);
  }
  std::string warning;
  const absl::StatusOr<Codec> checked = CheckCodec(kind, feedback, &warning);
  if (!checked.ok()) {
    reader.Error("kind", std::string(checked.status().message()));
    return;
  }
  if (!warning.empty()) reader.Warning("error_feedback", warning);
  *codec = *checked;
}

void ReadResidual(MapReader& reader, Codec* codec) {
  if (!reader.Has("residual")) {
    reader.Take("residual");
    return;
  }
  codec->residual_fp32 = reader.Choice("residual", {"bf16", "fp32"}) == 1;
  if (!codec->error_feedback) {
    reader.KeyError("residual",
                    "without error feedback there is none; add error_feedback: true or remove it");
  }
}

}  // namespace

void ReadCodec(MapReader& run_reader, const std::string& path, Findings& findings, Codec* codec) {
  const Node* node = run_reader.TakeMap("codec");
  if (node == nullptr) return;
  MapReader reader(*node, path + ".codec", "runs[].codec", findings);
  std::string kind;
  bool value = false;
  reader.String("kind", &kind);
  reader.Bool("error_feedback", &value);
  const auto feedback = reader.Has("error_feedback") ? std::optional(value) : std::nullopt;
  if (kind == kAuto) {
    ReadAuto(reader, feedback, codec);
  } else if (!kind.empty()) {
    ReadFixed(reader, kind, feedback, codec);
  } else {
    for (const std::string_view key : {"min", "max"}) reader.Take(key);
  }
  ReadResidual(reader, codec);
}

void ReadRoute(MapReader& run_reader, Route* route) {
  if (!run_reader.Has("route")) {
    run_reader.Take("route");
    return;
  }
  const int chosen = run_reader.Choice("route", {"auto", "direct", "owner"});
  if (chosen >= 0) *route = std::array{Route::kAuto, Route::kDirect, Route::kOwner}[chosen];
}

}  // namespace causeway::config
