// See request.h.
#include "daemon/trainers/request.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace causeway::trainers {
namespace {

using local::Type;

absl::Status Refuse(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool AllZero(const void* bytes, size_t size) {
  const auto* byte = static_cast<const uint8_t*>(bytes);
  return std::all_of(byte, byte + size, [](uint8_t b) { return b == 0; });
}

// A zero-terminated, zero-padded field of printable ASCII without blanks.
absl::StatusOr<std::string> ReadName(const char* field, size_t size, absl::string_view what) {
  const size_t length = strnlen(field, size);
  if (length == 0) return Refuse(absl::StrCat(what, " is empty"));
  if (length == size) return Refuse(absl::StrCat(what, " is not terminated"));
  if (!AllZero(field + length, size - length)) {
    return Refuse(absl::StrCat("bytes after the end of ", what, " are not zero"));
  }
  for (size_t i = 0; i < length; ++i) {
    if (field[i] <= 0x20 || field[i] >= 0x7f) {
      return Refuse(absl::StrCat(what, " holds a character that is not printable ASCII"));
    }
  }
  return std::string(field, length);
}

// What the header says of itself, before the type is known.
absl::Status CheckHeader(const local::Header& header, size_t datagram_size) {
  if (header.magic != local::kMagic) {
    return Refuse("wrong magic number: this is not the trainer protocol");
  }
  if (header.size != datagram_size) {
    return Refuse(
        absl::StrCat("header says ", header.size, " bytes, the datagram has ", datagram_size));
  }
  if (header.zero != 0) return Refuse("header padding is not zero");
  if (header.sequence == 0) return Refuse("sequence numbers start at 1");
  if (header.answers != 0) return Refuse("a request answers nothing: `answers` is not zero");
  return absl::OkStatus();
}

absl::StatusOr<Request> Read(const local::Hello& m) {
  HelloRequest request;
  if (m.zero != 0) return Refuse("Hello: padding is not zero");
  if (m.header.version != m.version_min) {
    return Refuse("Hello: the header's version is not version_min");
  }
  if (m.version_min == 0 || m.version_min > m.version_max) {
    return Refuse(
        absl::StrCat("Hello: versions ", m.version_min, " to ", m.version_max, " are no window"));
  }
  if (m.world == 0 || m.world > local::kRanksMax) {
    return Refuse(absl::StrCat("Hello: world ", m.world, " is not in 1 to ", local::kRanksMax));
  }
  if (m.rank >= m.world) {
    return Refuse(absl::StrCat("Hello: rank ", m.rank, " is not below world ", m.world));
  }
  absl::StatusOr<std::string> run = ReadName(m.run, sizeof(m.run), "Hello: run");
  if (!run.ok()) return run.status();
  request.version_min = m.version_min;
  request.version_max = m.version_max;
  request.rank = m.rank;
  request.world = m.world;
  std::copy(std::begin(m.token), std::end(m.token), request.token.begin());
  request.run = *std::move(run);
  return request;
}

absl::StatusOr<Request> Read(const local::Join& m) {
  if (m.zero != 0 || m.zero2 != 0) return Refuse("Join: padding is not zero");
  if (m.tensors == 0 || m.tensors > local::kTensorsMax) {
    return Refuse(
        absl::StrCat("Join: ", m.tensors, " tensors; 1 to ", local::kTensorsMax, " are supported"));
  }
  if (m.init > static_cast<uint8_t>(local::Init::kMatch)) {
    return Refuse(absl::StrCat("Join: init ", m.init, " is not known"));
  }
  if (m.outer > 1) return Refuse("Join: outer is neither 0 nor 1");
  JoinRequest request;
  request.tensors = m.tensors;
  request.init = static_cast<local::Init>(m.init);
  request.outer = m.outer == 1;
  request.local_steps = m.local_steps;
  return request;
}

absl::StatusOr<Request> Read(const local::Share& m) {
  if (!AllZero(m.zero, sizeof(m.zero))) return Refuse("Share: padding is not zero");
  if (m.kind != static_cast<uint8_t>(local::DeviceMemory::kCudaVmm)) {
    return Refuse(absl::StrCat("Share: kind ", m.kind, " is not known"));
  }
  if (m.bytes == 0) return Refuse("Share: an allocation of 0 bytes");
  ShareRequest request;
  request.bytes = m.bytes;
  std::copy(std::begin(m.device), std::end(m.device), request.device.begin());
  return request;
}

absl::StatusOr<Request> Read(const local::Offer& m) {
  if (m.zero != 0) return Refuse("Offer: padding is not zero");
  if (m.slices > local::kSlicesMax) {
    return Refuse(absl::StrCat("Offer: ", m.slices, " slices; at most ", local::kSlicesMax));
  }
  OfferRequest request;
  request.slices = m.slices;
  return request;
}

absl::StatusOr<Request> Read(const local::Submit& m) {
  if (!AllZero(m.zero, sizeof(m.zero))) return Refuse("Submit: padding is not zero");
  if (m.op == 0) return Refuse("Submit: op 0; ops count from 1");
  if (m.fragment >= local::kFragmentsMax) {
    return Refuse(
        absl::StrCat("Submit: fragment ", m.fragment, " is not below ", local::kFragmentsMax));
  }
  if (m.memory > static_cast<uint8_t>(local::Memory::kDevice)) {
    return Refuse(absl::StrCat("Submit: memory ", m.memory, " is not known"));
  }
  if (m.origin > static_cast<uint8_t>(local::Origin::kOlder)) {
    return Refuse("Submit: unknown origin");
  }
  if (m.base_round < 0) return Refuse("Submit: base_round is negative");
  if (m.base_round == std::numeric_limits<int64_t>::max()) {
    return Refuse("Submit: no round follows base_round");
  }
  if (m.origin == static_cast<uint8_t>(local::Origin::kOlder) && m.base_round == 0) {
    return Refuse("Submit: there is no value before base_round");
  }
  const size_t label_size = strnlen(m.label, sizeof(m.label));
  if (!AllZero(m.label + label_size, sizeof(m.label) - label_size)) {
    return Refuse("Submit: bytes after the end of the label are not zero");
  }
  if (label_size > 0 && !local::IsLabel(m.label, label_size)) {
    return Refuse("Submit: a label is at most 31 letters, digits and . _ -, the first no sign");
  }
  SubmitRequest request;
  request.label.assign(m.label, label_size);
  request.op = m.op;
  request.fragment = m.fragment;
  request.origin = static_cast<local::Origin>(m.origin);
  request.base_round = m.base_round;
  request.memory = static_cast<local::Memory>(m.memory);
  request.weight = m.weight;
  return request;
}

absl::StatusOr<Request> Read(const local::Applied& m) {
  if (m.fragment >= local::kFragmentsMax) {
    return Refuse(
        absl::StrCat("Applied: fragment ", m.fragment, " is not below ", local::kFragmentsMax));
  }
  if (m.round < 0) return Refuse("Applied: round is negative");
  AppliedRequest request;
  request.fragment = m.fragment;
  request.round = m.round;
  request.computing_us = m.computing_us;
  return request;
}

absl::StatusOr<Request> Read(const local::Abandon& m) {
  if (m.op == 0) return Refuse("Abandon: op 0; ops count from 1");
  AbandonRequest request;
  request.op = m.op;
  return request;
}

absl::StatusOr<Request> Read(const local::Query& m) {
  if (m.op == 0) return Refuse("Query: op 0; ops count from 1");
  QueryRequest request;
  request.session = m.session;
  request.op = m.op;
  return request;
}

absl::StatusOr<Request> Read(const local::Await& m) {
  AwaitRequest request;
  request.op = m.op;
  return request;
}

absl::StatusOr<Request> Read(const local::Finish&) { return FinishRequest{}; }
absl::StatusOr<Request> Read(const local::Leave&) { return LeaveRequest{}; }

// Every message of a type has one size: anything else is refused before a field is read.
template <typename Message>
absl::StatusOr<Request> Parse(absl::Span<const uint8_t> datagram, const char* name) {
  if (datagram.size() != sizeof(Message)) {
    return Refuse(absl::StrCat(name, ": ", datagram.size(), " bytes; expected ", sizeof(Message)));
  }
  Message message;
  std::memcpy(&message, datagram.data(), sizeof(message));
  absl::StatusOr<Request> request = Read(message);
  if (request.ok()) {
    std::visit([&](auto& r) { r.sequence = message.header.sequence; }, *request);
  }
  return request;
}

absl::StatusOr<Request> ParseBody(Type type, absl::Span<const uint8_t> datagram) {
  switch (type) {
    case Type::kHello:
      return Parse<local::Hello>(datagram, "Hello");
    case Type::kJoin:
      return Parse<local::Join>(datagram, "Join");
    case Type::kShare:
      return Parse<local::Share>(datagram, "Share");
    case Type::kOffer:
      return Parse<local::Offer>(datagram, "Offer");
    case Type::kSubmit:
      return Parse<local::Submit>(datagram, "Submit");
    case Type::kApplied:
      return Parse<local::Applied>(datagram, "Applied");
    case Type::kAbandon:
      return Parse<local::Abandon>(datagram, "Abandon");
    case Type::kQuery:
      return Parse<local::Query>(datagram, "Query");
    case Type::kAwait:
      return Parse<local::Await>(datagram, "Await");
    case Type::kFinish:
      return Parse<local::Finish>(datagram, "Finish");
    case Type::kLeave:
      return Parse<local::Leave>(datagram, "Leave");
    default:
      return Refuse(absl::StrCat("message type ", static_cast<uint16_t>(type),
                                 " is not one that a trainer sends"));
  }
}

// How many come beside a message.
size_t DescriptorsOf(const Request& request) {
  if (const auto* offer = std::get_if<OfferRequest>(&request)) return offer->slices > 0 ? 1 : 0;
  return std::holds_alternative<JoinRequest>(request) ||
                 std::holds_alternative<ShareRequest>(request)
             ? 1
             : 0;
}

}  // namespace

absl::StatusOr<Request> ParseRequest(absl::Span<const uint8_t> datagram, size_t descriptors,
                                     uint16_t version) {
  if (datagram.size() < sizeof(local::Header) || datagram.size() > local::kMessageBytesMax) {
    return Refuse(absl::StrCat("datagram of ", datagram.size(), " bytes; ", sizeof(local::Header),
                               " to ", local::kMessageBytesMax, " are legal"));
  }
  local::Header header;
  std::memcpy(&header, datagram.data(), sizeof(header));
  absl::Status status = CheckHeader(header, datagram.size());
  if (!status.ok()) return status;
  const Type type = static_cast<Type>(header.type);
  if (version == 0 && type != Type::kHello) return Refuse("the first message must be Hello");
  if (version != 0 && type == Type::kHello) return Refuse("Hello was said already");
  if (version != 0 && header.version != version) {
    return Refuse(
        absl::StrCat("message of version ", header.version, " in a session of version ", version));
  }
  absl::StatusOr<Request> request = ParseBody(type, datagram);
  if (!request.ok()) return request;
  if (descriptors != DescriptorsOf(*request)) {
    return Refuse(absl::StrCat(descriptors, " descriptors beside a message that takes ",
                               DescriptorsOf(*request)));
  }
  return request;
}

uint64_t SequenceOf(const Request& request) {
  return std::visit([](const auto& r) { return r.sequence; }, request);
}

const char* RequestName(const Request& request) {
  static constexpr const char* kNames[] = {"Hello",  "Join",    "Share",   "Offer",
                                           "Submit", "Applied", "Abandon", "Query",
                                           "Await",  "Finish",  "Leave"};
  static_assert(std::size(kNames) == std::variant_size_v<Request>);
  return kNames[request.index()];
}

absl::StatusOr<uint16_t> ChooseVersion(uint16_t version_min, uint16_t version_max) {
  if (version_max < local::kVersionMin || version_min > local::kVersionMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the trainer's library speaks protocol versions ", version_min, " to ",
                     version_max, ", this daemon ", local::kVersionMin, " to ", local::kVersionMax,
                     "; update the older of the two"));
  }
  return std::min(version_max, local::kVersionMax);
}

}  // namespace causeway::trainers
