// Codecs of about the same size as another rung but more loss, or slower, are left out.
#include "daemon/planning/ladder.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace causeway::planning {
namespace {

constexpr const char* kRungs[] = {"fp32", "bf16", "int8", "int4", "2bit", "sign", "btopk"};

}  // namespace

std::vector<std::string> LadderNames() { return {std::begin(kRungs), std::end(kRungs)}; }

absl::StatusOr<std::vector<compression::CodecSpec>> Ladder(absl::string_view least,
                                                           absl::string_view most,
                                                           bool error_feedback) {
  const std::vector<std::string> names = LadderNames();
  const auto first = std::find(names.begin(), names.end(), least);
  const auto last = std::find(names.begin(), names.end(), most);
  if (first == names.end() || last == names.end() || last < first) {
    return absl::InvalidArgumentError(absl::StrCat(
        "from '", least, "' to '", most,
        "' is no part of what auto chooses from, least lossy first: ", absl::StrJoin(names, ", ")));
  }
  std::vector<compression::CodecSpec> rungs;
  for (auto name = first; name <= last; ++name) {
    absl::StatusOr<compression::CodecSpec> spec = compression::CodecSpec::Parse(*name);
    assert(spec.ok());
    spec->error_feedback = error_feedback;
    spec->entropy =
        spec->kind == compression::CodecKind::kInt8 || spec->kind == compression::CodecKind::kInt4;
    assert(compression::ValidateSpec(*spec).ok());
    rungs.push_back(*spec);
  }
  return rungs;
}

}  // namespace causeway::planning
