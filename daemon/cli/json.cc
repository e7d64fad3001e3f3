#include "daemon/cli/json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cassert>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace causeway::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// One value: element `index` of a repeated field, or a singular one where index is -1.
void WriteValue(const Message& message, const FieldDescriptor& field, int index, JsonWriter* json) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      json->Integer(repeated ? reflection.GetRepeatedInt32(message, &field, index)
                             : reflection.GetInt32(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      json->Integer(repeated ? reflection.GetRepeatedInt64(message, &field, index)
                             : reflection.GetInt64(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      json->Unsigned(repeated ? reflection.GetRepeatedUInt32(message, &field, index)
                              : reflection.GetUInt32(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      json->Unsigned(repeated ? reflection.GetRepeatedUInt64(message, &field, index)
                              : reflection.GetUInt64(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      json->Number(repeated ? reflection.GetRepeatedDouble(message, &field, index)
                            : reflection.GetDouble(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_FLOAT:
      json->Number(repeated ? reflection.GetRepeatedFloat(message, &field, index)
                            : reflection.GetFloat(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      json->Bool(repeated ? reflection.GetRepeatedBool(message, &field, index)
                          : reflection.GetBool(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      json->String(repeated ? reflection.GetRepeatedEnum(message, &field, index)->name()
                            : reflection.GetEnum(message, &field)->name());
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      json->String(repeated ? reflection.GetRepeatedString(message, &field, index)
                            : reflection.GetString(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      WriteMessage(repeated ? reflection.GetRepeatedMessage(message, &field, index)
                            : reflection.GetMessage(message, &field),
                   json);
      return;
  }
}

std::string MapKey(const Message& entry) {
  const FieldDescriptor* key = entry.GetDescriptor()->map_key();
  assert(key->cpp_type() == FieldDescriptor::CPPTYPE_STRING && "only string keys are in use");
  return entry.GetReflection()->GetString(entry, key);
}

void WriteMap(const Message& message, const FieldDescriptor& field, JsonWriter* json) {
  const Reflection& reflection = *message.GetReflection();
  json->BeginObject();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    json->Key(MapKey(entry));
    WriteValue(entry, *entry.GetDescriptor()->map_value(), -1, json);
  }
  json->EndObject();
}

void WriteList(const Message& message, const FieldDescriptor& field, JsonWriter* json) {
  json->BeginArray();
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    WriteValue(message, field, i, json);
  }
  json->EndArray();
}

}  // namespace

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (filled_.empty()) return;
  if (filled_.back()) out_.push_back(',');
  filled_.back() = true;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  out_.push_back('{');
  filled_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  assert(!filled_.empty() && !after_key_);
  out_.push_back('}');
  filled_.pop_back();
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  out_.push_back('[');
  filled_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  assert(!filled_.empty() && !after_key_);
  out_.push_back(']');
  filled_.pop_back();
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  assert(!filled_.empty() && !after_key_);
  String(key);
  out_.push_back(':');
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  out_.push_back('"');
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out_.push_back('\\');
      out_.push_back(c);
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out_, "\\u%04x", byte);
    } else {
      out_.push_back(c);
    }
  }
  out_.push_back('"');
  return *this;
}

JsonWriter& JsonWriter::Integer(int64_t value) {
  Separate();
  absl::StrAppend(&out_, value);
  return *this;
}

JsonWriter& JsonWriter::Unsigned(uint64_t value) {
  Separate();
  absl::StrAppend(&out_, value);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  Separate();
  if (std::isfinite(value)) {
    absl::StrAppendFormat(&out_, "%.10g", value);
  } else {
    out_.append("null");
  }
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  out_.append(value ? "true" : "false");
  return *this;
}

const std::string& JsonWriter::text() const {
  assert(filled_.empty());
  return out_;
}

void WriteMessage(const Message& message, JsonWriter* json) {
  json->BeginObject();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    json->Key(field.name());
    if (field.is_map()) {
      WriteMap(message, field, json);
    } else if (field.is_repeated()) {
      WriteList(message, field, json);
    } else {
      WriteValue(message, field, -1, json);
    }
  }
  json->EndObject();
}

}  // namespace causeway::cli
