// Codec names, options and promises.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/codec_internal.h"
#include "compression/low_rank.h"

namespace causeway::compression {
namespace {

// A scale rounded up to bf16 is at most 1 + 2^-7 too large; half a step is the error.
constexpr double kScaleSlack = 1.0 + 1.0 / 128;

// A matrix's columns come nearer, as vectors; a single value can be off by what its column holds,
// which is at most the root of the rows times its largest.
constexpr double kLowRankBound = 512;

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
    {"topk", 0, 0, 0, false, true, 1.0},
    {"btopk", 4096, 0, 0, false, true, 1.0},
    {"bf16x", 0, 16, 0, false, true, 1.0 / 256},
    {"fp32x", 0, 32, 0, false, false, 0.0},
    {"cosine", 256, 4, 32, false, true, 0.13},
    {"patch", 0, 0, 0, false, true, 1.0},
    {"lowrank", 0, 0, 0, false, true, kLowRankBound},
}};

std::string KnownNames() {
  std::string names;
  for (const CodecTraits& traits : kTraits) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", traits.name);
  }
  return names;
}

constexpr uint16_t kTopKDefaultKeep = 100;      // 1 %
constexpr uint16_t kBlockTopKDefaultKeep = 64;  // of 4096, as SparseLoCo
constexpr uint8_t kLowRankDefaultRank = 4;
constexpr uint16_t kKeepUnit = 32;  // btopk keeps a multiple of this

// "k100" with prefix "k" and 100 <= most.
bool NumberAfter(absl::string_view option, absl::string_view prefix, uint32_t most,
                 uint32_t* number) {
  return absl::ConsumePrefix(&option, prefix) && absl::SimpleAtoi(option, number) &&
         *number <= most;
}

absl::Status ApplyOption(absl::string_view option, CodecSpec* spec) {
  uint32_t number = 0;
  if (option == "ef") {
    spec->error_feedback = true;
  } else if (option == "sr") {
    spec->stochastic = true;
  } else if (option == "zstd") {
    spec->entropy = true;
  } else if (NumberAfter(option, "b", kBlockMax, &number)) {
    spec->block = static_cast<uint16_t>(number);
  } else if (NumberAfter(option, "k", 10000, &number)) {
    spec->keep = static_cast<uint16_t>(number);
  } else if (NumberAfter(option, "v", 8, &number)) {
    spec->value_bits = static_cast<uint8_t>(number);
  } else if (NumberAfter(option, "r", kRankMax, &number)) {
    spec->rank = static_cast<uint8_t>(number);
  } else if (NumberAfter(option, "decay", 1000, &number)) {
    spec->decay = static_cast<uint16_t>(number);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("codec option \"", option,
                     "\" is unknown; known: bN (block of N elements, at most ", kBlockMax,
                     "), ef (error feedback), decayN (residual times N/1000), sr (stochastic "
                     "rounding), kN and vN "
                     "(topk, btopk: values kept, bits of a value), rN (lowrank: the rank), zstd"));
  }
  return absl::OkStatus();
}

}  // namespace

const CodecTraits& Traits(CodecKind kind) { return kTraits[static_cast<size_t>(kind)]; }

namespace {

absl::Status ValidateBlock(const CodecSpec& spec, const CodecTraits& traits) {
  if (traits.default_block == 0 && spec.block != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "codec ", traits.name, " has no blocks, but block ", spec.block, " was asked for"));
  }
  const bool power_of_two = spec.block != 0 && (spec.block & (spec.block - 1)) == 0;
  if (traits.default_block != 0 &&
      (!power_of_two || spec.block < kBlockMin || spec.block > kBlockMax)) {
    return absl::InvalidArgumentError(absl::StrCat("block ", spec.block, " of codec ", traits.name,
                                                   " is not a power of two from ", kBlockMin,
                                                   " to ", kBlockMax));
  }
  return absl::OkStatus();
}

absl::Status ValidateRank(const CodecSpec& spec, const CodecTraits& traits) {
  if (spec.kind != CodecKind::kLowRank) {
    if (spec.rank == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("codec ", traits.name, " sends no factors: option rN does not apply"));
  }
  if (spec.rank == 0 || spec.rank > kRankMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("lowrank has a rank of 1 to ", kRankMax, ", not ", spec.rank));
  }
  if (spec.entropy) {
    return absl::InvalidArgumentError(
        "codec lowrank sends factors, whose bits do not repeat: option zstd does not apply");
  }
  return absl::OkStatus();
}

absl::Status ValidateSparse(const CodecSpec& spec, const CodecTraits& traits) {
  if (spec.kind == CodecKind::kPatch && spec.entropy) {
    return absl::InvalidArgumentError(
        "codec patch codes its indices itself: option zstd does not apply");
  }
  if (spec.kind != CodecKind::kTopK && spec.kind != CodecKind::kBlockTopK) {
    if (spec.keep == 0 && spec.value_bits == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("codec ", traits.name, " sends every value: options kN and vN do not apply"));
  }
  if (spec.value_bits != 2 && spec.value_bits != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("values of ", spec.value_bits, " bits: ", traits.name, " has v2 and v4"));
  }
  if (spec.entropy) {
    return absl::InvalidArgumentError(absl::StrCat(
        "codec ", traits.name, " codes its indices itself: option zstd does not apply"));
  }
  if (spec.kind == CodecKind::kTopK && (spec.keep == 0 || spec.keep > 10000)) {
    return absl::InvalidArgumentError(
        absl::StrCat("topk keeps 1 to 10000 of 10000 values, not ", spec.keep));
  }
  if (spec.kind == CodecKind::kBlockTopK &&
      (spec.keep == 0 || spec.keep % kKeepUnit != 0 || spec.keep > spec.block)) {
    return absl::InvalidArgumentError(absl::StrCat("btopk keeps a multiple of ", kKeepUnit,
                                                   " of a block of ", spec.block, ", not ",
                                                   spec.keep));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSpec(const CodecSpec& spec) {
  if (static_cast<size_t>(spec.kind) >= kTraits.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec id ", static_cast<int>(spec.kind), " is unknown to this version"));
  }
  const CodecTraits& traits = Traits(spec.kind);
  absl::Status status = ValidateBlock(spec, traits);
  if (status.ok()) status = ValidateSparse(spec, traits);
  if (status.ok()) status = ValidateRank(spec, traits);
  if (!status.ok()) return status;
  if (spec.stochastic && !traits.stochastic_supported) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec ", traits.name, " has no stochastic rounding (option sr)"));
  }
  if (spec.stochastic && spec.error_feedback) {
    return absl::InvalidArgumentError(
        "stochastic rounding (sr) only adds error where error feedback (ef) is on; choose one");
  }
  if (spec.decay > 1000 || (spec.decay != 1000 && !spec.error_feedback)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decay ", spec.decay, ": from 0 to 1000 thousandths, with error feedback (ef)"));
  }
  return absl::OkStatus();
}

double BitsPerElement(const CodecSpec& spec) {
  if (spec.kind == CodecKind::kLowRank) return LowRankBits(spec.rank);
  return static_cast<double>(EncodedSizeMax(spec, kChunkElements) - kChunkHeaderBytes) * 8 /
         kChunkElements;
}

std::string CodecSpec::ToString() const {
  std::string text = Traits(kind).name;
  if (block != 0) absl::StrAppend(&text, ":b", block);
  if (keep != 0) absl::StrAppend(&text, ":k", keep);
  if (value_bits != 0) absl::StrAppend(&text, ":v", value_bits);
  if (rank != 0) absl::StrAppend(&text, ":r", rank);
  if (error_feedback) absl::StrAppend(&text, ":ef");
  if (decay != 1000) absl::StrAppend(&text, ":decay", decay);
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
    if (spec.kind == CodecKind::kTopK) {
      spec.keep = kTopKDefaultKeep;
      spec.value_bits = 4;
    } else if (spec.kind == CodecKind::kBlockTopK) {
      spec.keep = kBlockTopKDefaultKeep;
      spec.value_bits = 2;
    } else if (spec.kind == CodecKind::kLowRank) {
      spec.rank = kLowRankDefaultRank;
    }
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
