// Parsing and comparing schemas. See schema.h.
#include "daemon/schema/schema.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace causeway::schema {
namespace {

constexpr size_t kShownLineMax = 512;  // bytes of a line in an error

// Bytes of the well-formed UTF-8 sequence at the start of `text`; 0: malformed. Over-long forms,
// surrogates and code points beyond U+10FFFF are malformed.
size_t Utf8Bytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto tail = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xc2 && byte(0) <= 0xdf) return tail(1) ? 2 : 0;
  if (byte(0) >= 0xe0 && byte(0) <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if (byte(0) == 0xe0 && byte(1) < 0xa0) return 0;
    if (byte(0) == 0xed && byte(1) > 0x9f) return 0;
    return 3;
  }
  if (byte(0) >= 0xf0 && byte(0) <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (byte(0) == 0xf0 && byte(1) < 0x90) return 0;
    if (byte(0) == 0xf4 && byte(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

bool Printable(absl::string_view text) {
  while (!text.empty()) {
    const size_t size = Utf8Bytes(text);
    const auto first = static_cast<uint8_t>(text[0]);
    if (size == 0 || first < 0x20 || first == 0x7f) return false;
    text.remove_prefix(size);
  }
  return true;
}

absl::Status Refuse(uint32_t index, absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(
      name.empty() ? absl::StrCat("schema: tensor ", index, ": ", what)
                   : absl::StrCat("schema: tensor ", index, " '", name, "': ", what));
}

absl::StatusOr<std::string> ParseName(const local::TensorRecord& record, uint32_t index) {
  const size_t length = strnlen(record.name, sizeof(record.name));
  if (length == 0) return Refuse(index, "", "the name is empty; give every tensor a name");
  if (length == sizeof(record.name)) {
    return Refuse(index, "",
                  absl::StrCat("the name is longer than ", local::kTensorNameMax, " bytes"));
  }
  for (size_t i = length; i < sizeof(record.name); ++i) {
    if (record.name[i] != 0) return Refuse(index, "", "bytes after the name's end are not zero");
  }
  std::string name(record.name, length);
  if (!Printable(name)) {
    return Refuse(index, "", "the name is not printable UTF-8; rename the tensor");
  }
  return name;
}

absl::Status ParseShape(const local::TensorRecord& record, uint32_t index, Tensor& tensor) {
  if (record.dimensions > local::kDimensionsMax) {
    return Refuse(index, tensor.name,
                  absl::StrCat(record.dimensions, " dimensions; at most ", local::kDimensionsMax,
                               " are supported; flatten it"));
  }
  bool empty = false;
  for (uint32_t d = 0; d < local::kDimensionsMax; ++d) {
    if (d >= record.dimensions) {
      if (record.shape[d] != 0) return Refuse(index, tensor.name, "unused dimensions are not zero");
      continue;
    }
    if (record.shape[d] > local::kElementsMax) {
      return Refuse(index, tensor.name,
                    absl::StrCat("dimension ", d, " is ", record.shape[d], "; at most ",
                                 local::kElementsMax, " elements are supported"));
    }
    empty = empty || record.shape[d] == 0;
    tensor.shape.push_back(record.shape[d]);
  }
  uint64_t elements = empty ? 0 : 1;
  for (uint64_t size : tensor.shape) {
    if (elements != 0 && size > local::kElementsMax / elements) {
      return Refuse(index, tensor.name,
                    absl::StrCat("more than ", local::kElementsMax, " elements"));
    }
    elements *= size;
  }
  tensor.elements = elements;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ParseRecord(const local::TensorRecord& record, uint32_t index) {
  Tensor tensor;
  absl::StatusOr<std::string> name = ParseName(record, index);
  if (!name.ok()) return name.status();
  tensor.name = *std::move(name);
  if (record.dtype > static_cast<uint8_t>(local::DType::kFp16)) {
    return Refuse(index, tensor.name,
                  absl::StrCat("dtype ", record.dtype, " is not known; fp32, bf16 and fp16 are"));
  }
  if (record.group > static_cast<uint8_t>(local::Group::kFixed)) {
    return Refuse(
        index, tensor.name,
        absl::StrCat("group ", record.group, " is not known; parameter, buffer and fixed are"));
  }
  tensor.dtype = static_cast<local::DType>(record.dtype);
  tensor.group = static_cast<local::Group>(record.group);
  tensor.alias_of = record.alias_of;
  tensor.stage = record.stage;
  absl::Status status = ParseShape(record, index, tensor);
  if (!status.ok()) return status;
  if (tensor.group == local::Group::kFixed) tensor.elements = 0;
  return tensor;
}

absl::Status CheckStage(const Tensor& tensor, uint32_t index, uint32_t stages) {
  if (tensor.stage + 1u == stages || tensor.stage == stages) return absl::OkStatus();
  return Refuse(index, tensor.name,
                absl::StrCat("it is of stage ", tensor.stage, " after one of stage ",
                             static_cast<int>(stages) - 1,
                             "; stages ascend from 0, one at a time: new tensors come last"));
}

// `earlier` are the tensors before it, all legal.
absl::Status CheckAlias(const Tensor& tensor, uint32_t index, absl::Span<const Tensor> earlier) {
  if (tensor.alias_of == kNoAlias) return absl::OkStatus();
  if (tensor.alias_of < 0 || static_cast<uint32_t>(tensor.alias_of) >= index) {
    return Refuse(index, tensor.name,
                  absl::StrCat("it is an alias of tensor ", tensor.alias_of,
                               ", which does not come before it"));
  }
  const Tensor& target = earlier[tensor.alias_of];
  if (target.alias_of != kNoAlias) {
    return Refuse(index, tensor.name,
                  absl::StrCat("it is an alias of '", target.name,
                               "', which is an alias itself; name the first tensor"));
  }
  if (target.dtype != tensor.dtype || target.group != tensor.group ||
      target.shape != tensor.shape) {
    return Refuse(index, tensor.name,
                  absl::StrCat("it is an alias of '", target.name,
                               "' and differs from it in dtype, group or shape"));
  }
  return absl::OkStatus();
}

std::string Line(const Tensor& tensor, const std::vector<Tensor>& tensors) {
  const std::string stage = tensor.stage == 0 ? "" : absl::StrCat(" of stage ", tensor.stage);
  if (tensor.alias_of != kNoAlias) {
    return absl::StrCat("alias of '", tensors[tensor.alias_of].name, "'", stage, "\t", tensor.name);
  }
  return absl::StrCat(DTypeName(tensor.dtype), " ", GroupName(tensor.group), " [",
                      absl::StrJoin(tensor.shape, ", "), "]", stage, "\t", tensor.name);
}

Digest DigestOf(absl::Span<const uint8_t> records) {
  static constexpr char kDomain[] = "causeway schema 1";  // its zero byte is hashed, too
  Digest digest{};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  const bool done = context != nullptr &&
                    EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1 &&
                    EVP_DigestUpdate(context.get(), kDomain, sizeof(kDomain)) == 1 &&
                    EVP_DigestUpdate(context.get(), records.data(), records.size()) == 1 &&
                    EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1;
  assert(done && "SHA-256 is always available");
  (void)done;
  return digest;
}

// Their text may be hostile: clipped, and no control characters reach a terminal or a log.
std::string Shown(absl::string_view text) {
  std::string shown(text.substr(0, kShownLineMax));
  if (Printable(shown)) return shown;
  for (char& c : shown) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte >= 0x7f) c = '?';
  }
  return shown;
}

struct LineParts {
  absl::string_view what;
  absl::string_view name;
};

LineParts Split(absl::string_view line) {
  const size_t tab = line.find('\t');
  if (tab == absl::string_view::npos) return {line, ""};
  return {line.substr(0, tab), line.substr(tab + 1)};
}

}  // namespace

const char* DTypeName(local::DType dtype) {
  switch (dtype) {
    case local::DType::kFp32:
      return "fp32";
    case local::DType::kBf16:
      return "bf16";
    case local::DType::kFp16:
      return "fp16";
  }
  return "unknown";
}

const char* GroupName(local::Group group) {
  switch (group) {
    case local::Group::kParameter:
      return "parameter";
    case local::Group::kBuffer:
      return "buffer";
    case local::Group::kFixed:
      return "fixed";
  }
  return "unknown";
}

size_t DTypeBytes(local::DType dtype) { return dtype == local::DType::kFp32 ? 4 : 2; }

absl::StatusOr<Schema> Schema::Parse(absl::Span<const uint8_t> records, uint32_t count) {
  if (count == 0) return absl::InvalidArgumentError("schema: it holds no tensors");
  if (count > local::kTensorsMax) {
    return absl::InvalidArgumentError(absl::StrCat("schema: ", count, " tensors; at most ",
                                                   local::kTensorsMax, " are supported"));
  }
  if (records.size() != uint64_t{count} * sizeof(local::TensorRecord)) {
    return absl::InvalidArgumentError(absl::StrCat("schema: ", records.size(), " bytes for ", count,
                                                   " tensors; expected ",
                                                   uint64_t{count} * sizeof(local::TensorRecord)));
  }
  Schema schema;
  schema.tensors_.reserve(count);
  std::unordered_set<std::string> names;
  uint32_t stages = 0;
  bool exchanges = false;
  for (uint32_t i = 0; i < count; ++i) {
    local::TensorRecord record;
    std::memcpy(&record, records.data() + size_t{i} * sizeof(record), sizeof(record));
    absl::StatusOr<Tensor> tensor = ParseRecord(record, i);
    if (!tensor.ok()) return tensor.status();
    if (!names.insert(tensor->name).second) {
      return Refuse(i, tensor->name, "an earlier tensor has the same name");
    }
    absl::Status status = CheckStage(*tensor, i, stages);
    if (status.ok()) status = CheckAlias(*tensor, i, schema.tensors_);
    if (!status.ok()) return status;
    if (tensor->stage == stages) {
      if (stages > 0)
        schema.stage_digests_.push_back(DigestOf(records.subspan(0, i * sizeof(record))));
      ++stages;
    }
    if (tensor->alias_of == kNoAlias) {
      if (tensor->elements > local::kElementsMax - schema.elements_) {
        return Refuse(
            i, tensor->name,
            absl::StrCat("with it the schema has more than ", local::kElementsMax, " elements"));
      }
      schema.elements_ += tensor->elements;
    }
    exchanges = exchanges || (tensor->stage == 0 && tensor->group != local::Group::kFixed);
    schema.tensors_.push_back(*std::move(tensor));
  }
  if (!exchanges) {
    return absl::InvalidArgumentError(
        "schema: all tensors of the first stage are fixed; there is nothing to exchange");
  }
  schema.stage_digests_.push_back(DigestOf(records));
  return schema;
}

std::optional<uint32_t> Schema::StageOf(const Digest& digest) const {
  const auto found = std::find(stage_digests_.begin(), stage_digests_.end(), digest);
  if (found == stage_digests_.end()) return std::nullopt;
  return static_cast<uint32_t>(found - stage_digests_.begin());
}

std::vector<uint8_t> Schema::Records() const {
  std::vector<uint8_t> out(tensors_.size() * sizeof(local::TensorRecord));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    local::TensorRecord record{};
    tensor.name.copy(record.name, sizeof(record.name) - 1);
    record.dtype = static_cast<uint8_t>(tensor.dtype);
    record.group = static_cast<uint8_t>(tensor.group);
    record.dimensions = static_cast<uint8_t>(tensor.shape.size());
    record.stage = tensor.stage;
    record.alias_of = tensor.alias_of;
    std::copy(tensor.shape.begin(), tensor.shape.end(), record.shape);
    std::memcpy(out.data() + i * sizeof(record), &record, sizeof(record));
  }
  return out;
}

std::vector<std::string> Schema::Lines() const {
  std::vector<std::string> lines;
  lines.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) lines.push_back(Line(tensor, tensors_));
  return lines;
}

std::string FirstDifference(absl::Span<const std::string> here,
                            absl::Span<const std::string> theirs, const std::string& their_name) {
  const size_t common = std::min(here.size(), theirs.size());
  for (size_t i = 0; i < common; ++i) {
    if (here[i] == theirs[i]) continue;
    const LineParts mine = Split(here[i]);
    const LineParts other = Split(theirs[i]);
    if (mine.name == other.name) {
      return absl::StrCat("tensor ", i, " '", Shown(mine.name), "': ", Shown(mine.what), " here, ",
                          Shown(other.what), " at ", their_name);
    }
    return absl::StrCat("tensor ", i, ": '", Shown(mine.name), "' (", Shown(mine.what), ") here, '",
                        Shown(other.name), "' (", Shown(other.what), ") at ", their_name);
  }
  if (here.size() == theirs.size()) return "";
  const bool more_here = here.size() > theirs.size();
  const LineParts extra = Split(more_here ? here[common] : theirs[common]);
  return absl::StrCat("tensor ", common, " '", Shown(extra.name), "': ", Shown(extra.what),
                      more_here ? " here, missing at " : " missing here, present at ", their_name);
}

std::string Hex(absl::Span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

}  // namespace causeway::schema
