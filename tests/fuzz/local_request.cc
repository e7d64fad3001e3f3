// Fuzzes the parser of trainers' messages. Input: descriptors beside the datagram (1 byte), the
// session's version (1 byte, 0 or 1), the datagram.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "daemon/trainers/request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using causeway::trainers::HelloRequest;
  using causeway::trainers::JoinRequest;
  if (size < 2) return 0;
  const auto request = causeway::trainers::ParseRequest({data + 2, size - 2}, data[0], data[1] % 2);
  if (!request.ok()) {
    if (request.status().message().empty()) std::abort();  // every refusal has a reason
    return 0;
  }
  // What the rest of the daemon relies on.
  if (causeway::trainers::SequenceOf(*request) == 0) std::abort();
  if (const auto* hello = std::get_if<HelloRequest>(&*request)) {
    if (data[1] % 2 != 0 || hello->run.empty() || hello->rank >= hello->world) std::abort();
    if (hello->run.size() > causeway::local::kRunNameMax) std::abort();
  }
  if (const auto* join = std::get_if<JoinRequest>(&*request)) {
    if (data[0] != 1 || join->tensors == 0 || join->tensors > causeway::local::kTensorsMax) {
      std::abort();
    }
  }
  return 0;
}
