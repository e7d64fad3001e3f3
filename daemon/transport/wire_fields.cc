#include "daemon/transport/wire_fields.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "daemon/transport/limits.h"

namespace causeway::transport {

absl::Status BadFrame(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed lane frame: ", what));
}

absl::Status FieldReader::ReadTag() {
  uint64_t tag = 0;
  if (absl::Status read = ReadVarint(tag); !read.ok()) return read;
  if (tag > std::numeric_limits<uint32_t>::max() || (tag >> 3) == 0)
    return BadFrame("field number");
  field_ = static_cast<uint32_t>(tag >> 3);
  type_ = static_cast<uint32_t>(tag & 7);
  return absl::OkStatus();
}

absl::Status FieldReader::ReadVarint(uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (position_ >= bytes_.size()) return BadFrame("ends inside a number");
    const uint8_t byte = bytes_[position_++];
    if (shift == 63 && byte > 1) return BadFrame("number above 64 bits");
    if (shift > 0 && byte == 0) return BadFrame("number longer than needed");
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return absl::OkStatus();
  }
  return BadFrame("number above 64 bits");
}

absl::Status FieldReader::ReadSpan(absl::Span<const uint8_t>& span) {
  uint64_t length = 0;
  if (absl::Status read = ReadVarint(length); !read.ok()) return read;
  if (length > bytes_.size() - position_) return BadFrame("field longer than the frame's head");
  span = bytes_.subspan(position_, length);
  position_ += length;
  return absl::OkStatus();
}

absl::Status FieldReader::Skip() {
  uint64_t ignored = 0;
  absl::Span<const uint8_t> span;
  switch (type_) {
    case kWireVarint:
      return ReadVarint(ignored);
    case kWireBytes:
      return ReadSpan(span);
    case kWireFixed64:
      return Advance(8);
    case kWireFixed32:
      return Advance(4);
    default:
      return BadFrame(absl::StrCat("wire type ", type_));
  }
}

absl::Status FieldReader::Advance(size_t count) {
  if (count > bytes_.size() - position_) return BadFrame("ends inside a field");
  position_ += count;
  return absl::OkStatus();
}

absl::Status OnceReader::Number(uint64_t& value) {
  if (absl::Status first = First(kWireVarint); !first.ok()) return first;
  return reader_.ReadVarint(value);
}

absl::Status OnceReader::Number32(uint32_t& value) {
  uint64_t wide = 0;
  if (absl::Status read = Number(wide); !read.ok()) return read;
  if (wide > std::numeric_limits<uint32_t>::max()) {
    return BadFrame(absl::StrCat("field ", reader_.field(), " above 32 bits"));
  }
  value = static_cast<uint32_t>(wide);
  return absl::OkStatus();
}

absl::Status OnceReader::Name(std::string& value) {
  absl::Span<const uint8_t> span;
  if (absl::Status read = Message(span); !read.ok()) return read;
  if (span.size() > kNameBytesMax) {
    return BadFrame(absl::StrCat("name of ", span.size(), " bytes in field ", reader_.field(),
                                 ", limit ", kNameBytesMax));
  }
  for (uint8_t byte : span) {
    if (byte <= ' ' || byte > '~') return BadFrame("name that is not printable ASCII");
  }
  value.assign(reinterpret_cast<const char*>(span.data()), span.size());
  return absl::OkStatus();
}

absl::Status OnceReader::Message(absl::Span<const uint8_t>& span) {
  if (absl::Status first = First(kWireBytes); !first.ok()) return first;
  return reader_.ReadSpan(span);
}

absl::Status OnceReader::First(uint32_t type) {
  if (reader_.type() != type) {
    return BadFrame(absl::StrCat("field ", reader_.field(), " has wire type ", reader_.type()));
  }
  const uint32_t bit = 1u << reader_.field();  // known fields are below 32
  if ((seen_ & bit) != 0) return BadFrame(absl::StrCat("field ", reader_.field(), " twice"));
  seen_ |= bit;
  return absl::OkStatus();
}

void AppendVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void AppendBytesHead(std::string& out, uint32_t field, size_t bytes) {
  AppendVarint(out, uint64_t{field} << 3 | kWireBytes);
  AppendVarint(out, bytes);
}

void AppendNumber(std::string& out, uint32_t field, uint64_t value) {
  if (value == 0) return;
  AppendVarint(out, uint64_t{field} << 3 | kWireVarint);
  AppendVarint(out, value);
}

void AppendText(std::string& out, uint32_t field, const std::string& value) {
  if (value.empty()) return;
  AppendBytesHead(out, field, value.size());
  out += value;
}

}  // namespace causeway::transport
