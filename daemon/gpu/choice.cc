// See choice.h.
#include "daemon/gpu/choice.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/vector.h"

namespace causeway::gpu {

absl::StatusOr<Choice> Choose(Use use, const std::vector<compression::CodecSpec>& codecs,
                              const Opener& open) {
  const std::string on_cpu =
      absl::StrCat("codecs run on the CPU (unit ", compression::ActiveIsaName(), ")");
  if (use == Use::kOff) return Choice{nullptr, absl::StrCat("gpu: off; ", on_cpu)};
  absl::StatusOr<std::shared_ptr<GpuCodec>> opened = open();
  if (!opened.ok()) {
    if (use == Use::kAuto) {
      return Choice{nullptr, absl::StrCat("no GPU: ", opened.status().message(), "; ", on_cpu)};
    }
    return absl::FailedPreconditionError(
        absl::StrCat("gpu: required, but there is no usable one: ", opened.status().message(),
                     "; with `gpu: auto` the CPU does its work"));
  }
  std::set<std::string> left;
  for (const compression::CodecSpec& codec : codecs) {
    if (!(*opened)->Supports(codec)) left.insert(codec.ToString());
  }
  Choice choice{*std::move(opened), ""};
  choice.text = absl::StrCat("GPU: ", choice.codec->Name(),
                             "; encodes snapshots that trainers leave in its memory");
  if (!left.empty()) {
    absl::StrAppend(&choice.text, "; no kernels for ", absl::StrJoin(left, ", "),
                    ", which the CPU encodes");
  }
  return choice;
}

}  // namespace causeway::gpu
