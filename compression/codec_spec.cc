// Codec names, options and promises.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/codec.h"

namespace causeway::compression {
namespace {

// A scale rounded up to bf16 is at most 1 + 2^-7 too large; half a step is the error.
constexpr double kScaleSlack = 1.0 + 1.0 / 128;

constexpr std::array<CodecTraits, kCodecKinds> kTraits = {{
    {"fp32", 0, 32, 0, false, false, 0.0},
    {"bf16", 0, 16, 0, false, true, 1.0 / 256},
    {"fp16", 0, 16, 0, false, true, 1.0 / 2048},
    {"int8", 256, 8, 16, true, true, kScaleSlack * 0.5 / 127},
    {"int4", 64, 4, 16, true, true, kScaleSlack * 0.5 / 7},
    {"nf4", 64, 4, 16, false, true, kScaleSlack * 0.152},
    {"fp8", 128, 8, 16, false, true, kScaleSlack * 16.0 / 448},
    {"mxfp4", 32, 4, 8, false, true, 0.25},
    {"e3m0", 64, 4, 16, false, true, kScaleSlack * 0.25},
    {"2bit", 256, 2, 32, false, true, kScaleSlack},
    {"sign", 256, 1, 16, false, true, kScaleSlack},
}};

std::string KnownNames() {
  std::string names;
  for (const CodecTraits& traits : kTraits) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", traits.name);
  }
  return names;
}

absl::Status ApplyOption(absl::string_view option, CodecSpec* spec) {
  uint32_t block = 0;
  if (option == "ef") {
    spec->error_feedback = true;
  } else if (option == "sr") {
    spec->stochastic = true;
  } else if (option == "zstd") {
    spec->entropy = true;
  } else if (!option.empty() && option[0] == 'b' && absl::SimpleAtoi(option.substr(1), &block) &&
             block <= kBlockMax) {
    spec->block = static_cast<uint16_t>(block);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "codec option \"", option, "\" is unknown; known: bN (block of N elements, at most ",
        kBlockMax, "), ef (error feedback), sr (stochastic rounding), zstd"));
  }
  return absl::OkStatus();
}

}  // namespace

const CodecTraits& Traits(CodecKind kind) { return kTraits[static_cast<size_t>(kind)]; }

absl::Status ValidateSpec(const CodecSpec& spec) {
  if (static_cast<size_t>(spec.kind) >= kTraits.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec id ", static_cast<int>(spec.kind), " is unknown to this version"));
  }
  const CodecTraits& traits = Traits(spec.kind);
  if (traits.default_block == 0 && spec.block != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "codec ", traits.name, " has no blocks, but block ", spec.block, " was asked for"));
  }
  bool power_of_two = spec.block != 0 && (spec.block & (spec.block - 1)) == 0;
  if (traits.default_block != 0 &&
      (!power_of_two || spec.block < kBlockMin || spec.block > kBlockMax)) {
    return absl::InvalidArgumentError(absl::StrCat("block ", spec.block, " of codec ", traits.name,
                                                   " is not a power of two from ", kBlockMin,
                                                   " to ", kBlockMax));
  }
  if (spec.stochastic && !traits.stochastic_supported) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec ", traits.name, " has no stochastic rounding (option sr)"));
  }
  if (spec.stochastic && spec.error_feedback) {
    return absl::InvalidArgumentError(
        "stochastic rounding (sr) only adds error where error feedback (ef) is on; choose one");
  }
  return absl::OkStatus();
}

std::string CodecSpec::ToString() const {
  std::string text = Traits(kind).name;
  if (block != 0) absl::StrAppend(&text, ":b", block);
  if (error_feedback) absl::StrAppend(&text, ":ef");
  if (stochastic) absl::StrAppend(&text, ":sr");
  if (entropy) absl::StrAppend(&text, ":zstd");
  return text;
}

absl::StatusOr<CodecSpec> CodecSpec::Parse(absl::string_view text) {
  std::vector<absl::string_view> words = absl::StrSplit(text, ':');
  for (size_t i = 0; i < kTraits.size(); ++i) {
    if (words[0] != kTraits[i].name) continue;
    CodecSpec spec;
    spec.kind = static_cast<CodecKind>(i);
    spec.block = kTraits[i].default_block;
    for (size_t w = 1; w < words.size(); ++w) {
      absl::Status status = ApplyOption(words[w], &spec);
      if (!status.ok()) return status;
    }
    absl::Status status = ValidateSpec(spec);
    if (!status.ok()) return status;
    return spec;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("codec \"", words[0], "\" is unknown; known: ", KnownNames()));
}

}  // namespace causeway::compression
