// The codec names that this build knows, from the codecs themselves.
#include "absl/strings/str_cat.h"
#include "compression/codec.h"
#include "daemon/config/sections.h"
#include "daemon/config/suggest.h"

namespace causeway::config {
namespace {

std::string Hint(const std::string& kind) {
  std::vector<std::string> names;
  for (int i = 0; i < compression::kCodecKinds; ++i) {
    names.emplace_back(compression::Traits(static_cast<compression::CodecKind>(i)).name);
  }
  const std::string word = kind.substr(0, kind.find(':'));
  for (const std::string& name : names) {
    if (name == word) return "";
  }
  names.emplace_back("auto");
  return DidYouMean(word, names);
}

}  // namespace

absl::StatusOr<Codec> CheckCodec(const std::string& kind, std::optional<bool> error_feedback,
                                 std::string* warning) {
  absl::StatusOr<compression::CodecSpec> spec = compression::CodecSpec::Parse(kind);
  if (!spec.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(spec.status().message(), Hint(kind)));
  }
  if (error_feedback == false && spec->error_feedback) {
    return absl::InvalidArgumentError(
        "says ef (error feedback), but error_feedback is false; remove one of the two");
  }
  spec->error_feedback = error_feedback.value_or(spec->error_feedback);
  const absl::Status valid = compression::ValidateSpec(*spec);
  if (!valid.ok()) return valid;
  const compression::CodecTraits& traits = compression::Traits(spec->kind);
  if (spec->error_feedback && !traits.residual_pays) {
    *warning = absl::StrCat("buys nothing with ", traits.name, ", which loses ",
                            traits.error_bound == 0 ? "nothing" : "too little",
                            ", and costs 4 bytes a parameter");
  }
  return Codec{spec->ToString(), spec->error_feedback, false, {}};
}

}  // namespace causeway::config
