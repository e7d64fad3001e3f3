// Fields of a protobuf message, read and written by hand: for frames whose payload is never copied
// into a message object.
//
// Pure; any thread. Input is hostile: nothing is allocated beyond names of kNameBytesMax, and what
// is wrong is named by an INVALID_ARGUMENT. Stricter than protobuf: numbers without padding, each
// field at most once, names of printable ASCII.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_WIRE_FIELDS_H_
#define CAUSEWAY_DAEMON_TRANSPORT_WIRE_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace causeway::transport {

// Wire types.
inline constexpr uint32_t kWireVarint = 0;
inline constexpr uint32_t kWireFixed64 = 1;
inline constexpr uint32_t kWireBytes = 2;
inline constexpr uint32_t kWireFixed32 = 5;

absl::Status BadFrame(const std::string& what);

// Walks over the fields of one message inside `bytes`.
class FieldReader {
 public:
  explicit FieldReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  bool done() const { return position_ >= bytes_.size(); }
  size_t position() const { return position_; }
  uint32_t field() const { return field_; }
  uint32_t type() const { return type_; }

  absl::Status ReadTag();
  absl::Status ReadVarint(uint64_t& value);
  absl::Status ReadSpan(absl::Span<const uint8_t>& span);
  absl::Status Skip();

 private:
  absl::Status Advance(size_t count);

  const absl::Span<const uint8_t> bytes_;
  size_t position_ = 0;
  uint32_t field_ = 0;
  uint32_t type_ = 0;
};

// Reads values of the reader's current field, refusing a second one of the same number.
class OnceReader {
 public:
  explicit OnceReader(FieldReader& reader) : reader_(reader) {}

  absl::Status Number(uint64_t& value);
  absl::Status Number32(uint32_t& value);
  absl::Status Name(std::string& value);
  absl::Status Message(absl::Span<const uint8_t>& span);
  // Of this wire type and for the first time; known fields are below 32.
  absl::Status First(uint32_t type);

 private:
  FieldReader& reader_;
  uint32_t seen_ = 0;
};

// Appends a varint, or the tag and length of a length-delimited field.
void AppendVarint(std::string& out, uint64_t value);
void AppendBytesHead(std::string& out, uint32_t field, size_t bytes);
// Appends a field, unless it has its default value.
void AppendNumber(std::string& out, uint32_t field, uint64_t value);
void AppendText(std::string& out, uint32_t field, const std::string& value);

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_WIRE_FIELDS_H_
