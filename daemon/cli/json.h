// Writes JSON for programs: compact, keys in the order given, 64-bit numbers as numbers.
//
// Pure; one thread. The caller keeps the nesting right (asserted).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace causeway::cli {

class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);
  JsonWriter& Integer(int64_t value);
  JsonWriter& Unsigned(uint64_t value);
  JsonWriter& Number(double value);  // null where it is not finite
  JsonWriter& Bool(bool value);

  // Of a finished document.
  const std::string& text() const;

 private:
  void Separate();

  std::string out_;
  std::vector<bool> filled_;  // per open container: has an element
  bool after_key_ = false;
};

// Every field, also unset ones, by its name in the .proto file.
void WriteMessage(const google::protobuf::Message& message, JsonWriter* json);

}  // namespace causeway::cli
