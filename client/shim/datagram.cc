#include "client/shim/datagram.h"

#include <cmath>
#include <string>

namespace causeway::client {
namespace {

using local::Type;

Status Malformed(const char* message, const char* what) {
  return Status(CW_PROTOCOL, std::string("the gateway sent a malformed ") + message + ": " + what +
                                 "; check that causewayd and libcauseway are of one release");
}

template <size_t N>
bool Terminated(const char (&text)[N]) {
  return std::memchr(text, 0, N) != nullptr;
}

template <typename T>
bool AllZero(const T& bytes) {
  for (auto byte : bytes) {
    if (byte != 0) return false;
  }
  return true;
}

Status CheckWelcome(const local::Welcome& m) {
  if (!Terminated(m.cluster)) return Malformed("Welcome", "cluster name without an end");
  if (AllZero(m.token)) return Malformed("Welcome", "empty token");
  return Status();
}

Status CheckJoined(const local::Joined& m) {
  if (m.zero != 0) return Malformed("Joined", "reserved bytes are not zero");
  if (m.fragments == 0 || m.fragments > local::kFragmentsMax) {
    return Malformed("Joined", "number of fragments out of range");
  }
  if (m.tensors > local::kTensorsMax) return Malformed("Joined", "too many tensors");
  if (m.local_steps == 0) return Malformed("Joined", "local_steps is 0");
  if (m.apply_mode > static_cast<uint8_t>(local::ApplyMode::kReplace)) {
    return Malformed("Joined", "unknown apply mode");
  }
  if (m.outer > 1) return Malformed("Joined", "outer is neither 0 nor 1");
  if (!(m.mix >= 0.0f && m.mix <= 1.0f)) return Malformed("Joined", "mix is outside 0..1");
  if (!(m.learning_rate >= 0.0f && m.learning_rate <= 1e6f && m.momentum >= 0.0f &&
        m.momentum < 1.0f)) {
    return Malformed("Joined", "outer learning rate or momentum out of range");
  }
  if (!Terminated(m.rule) || !Terminated(m.codec))
    return Malformed("Joined", "text without an end");
  const uint64_t delay = m.delay_steps;
  // A whole round is for results that replace what was trained meanwhile.
  const bool round_late = m.apply_mode == static_cast<uint8_t>(local::ApplyMode::kReplace);
  const uint64_t longest = round_late ? m.local_steps : m.local_steps - 1;
  if (delay != local::kDelayAuto && delay > longest) {
    return Malformed("Joined", "the delay is not shorter than local_steps");
  }
  return Status();
}

Status CheckReady(const local::Ready& m) {
  if (m.start > static_cast<uint8_t>(local::Start::kReplace) || !AllZero(m.zero)) {
    return Malformed("Ready", "unknown start");
  }
  if (m.fragments == 0 || m.fragments > local::kFragmentsMax) {
    return Malformed("Ready", "number of fragments out of range");
  }
  if (m.members == 0 || m.members > local::kClustersMax) {
    return Malformed("Ready", "number of members out of range");
  }
  for (uint32_t i = 0; i < m.fragments; ++i) {
    if (m.round[i] < 0) return Malformed("Ready", "negative round");
  }
  return Status();
}

Status CheckSubmitted(const local::Submitted& m) {
  if (m.op == 0 || m.round < 0) return Malformed("Submitted", "no such operation or round");
  return Status();
}

Status CheckOpState(const local::OpState& m) {
  if (m.state > static_cast<uint8_t>(local::State::kAbandoned)) {
    return Malformed("OpState", "unknown state");
  }
  if (m.fragment >= local::kFragmentsMax) return Malformed("OpState", "fragment out of range");
  if (m.in_doubt > 1 || m.nonfinite > 1 || !AllZero(m.zero)) {
    return Malformed("OpState", "reserved bytes are not zero");
  }
  if (m.participants > local::kClustersMax) return Malformed("OpState", "too many participants");
  const auto state = static_cast<local::State>(m.state);
  if ((state == local::State::kCommitted || state == local::State::kExcluded) && m.round < 0) {
    return Malformed("OpState", "negative round");
  }
  if (!Terminated(m.awaited)) return Malformed("OpState", "text without an end");
  return Status();
}

Status CheckAwaiting(const local::Awaiting& m) {
  if (!Terminated(m.awaited) || !Terminated(m.reason)) {
    return Malformed("Awaiting", "text without an end");
  }
  return Status();
}

Status CheckShared(const local::Shared& m) {
  if (m.accepted > 1 || !AllZero(m.zero)) return Malformed("Shared", "accepted is no flag");
  return Terminated(m.reason) ? Status() : Malformed("Shared", "text without an end");
}

Status CheckError(const local::Error& m) {
  if (m.retryable > 1 || m.fatal > 1) return Malformed("Error", "flags are neither 0 nor 1");
  if (!Terminated(m.cluster) || !Terminated(m.tensor) || !Terminated(m.text)) {
    return Malformed("Error", "text without an end");
  }
  if (m.code == 0) return Malformed("Error", "code 0");
  return Status();
}

// Size of a message that a gateway may send; 0: it may not.
size_t SizeOf(Type type) {
  switch (type) {
    case Type::kWelcome:
      return sizeof(local::Welcome);
    case Type::kJoined:
      return sizeof(local::Joined);
    case Type::kShared:
      return sizeof(local::Shared);
    case Type::kReady:
      return sizeof(local::Ready);
    case Type::kSubmitted:
      return sizeof(local::Submitted);
    case Type::kOpState:
      return sizeof(local::OpState);
    case Type::kAwaiting:
      return sizeof(local::Awaiting);
    case Type::kFinished:
      return sizeof(local::Finished);
    case Type::kError:
      return sizeof(local::Error);
    default:
      return 0;
  }
}

}  // namespace

Status Datagram::Check(uint16_t version) const {
  if (size < sizeof(local::Header)) return Malformed("message", "shorter than a header");
  const local::Header head = header();
  if (head.magic != local::kMagic)
    return Malformed("message", "wrong magic: is that socket causewayd's?");
  if (head.size != size) return Malformed("message", "its size is not what its header says");
  if (head.zero != 0) return Malformed("header", "reserved bytes are not zero");
  const bool in_window = head.version >= local::kVersionMin && head.version <= local::kVersionMax;
  if (version != 0 ? head.version != version : !in_window) {
    return Malformed("header", "unexpected protocol version");
  }
  const size_t expected = SizeOf(type());
  if (expected == 0) return Malformed("message", "a type that a gateway does not send");
  if (size != expected) return Malformed("message", "wrong size for its type");
  if (descriptors.size() != (type() == Type::kJoined ? 3u : 0u)) {
    return Malformed("message", "wrong number of descriptors");
  }
  switch (type()) {
    case Type::kWelcome:
      return CheckWelcome(As<local::Welcome>());
    case Type::kJoined:
      return CheckJoined(As<local::Joined>());
    case Type::kShared:
      return CheckShared(As<local::Shared>());
    case Type::kReady:
      return CheckReady(As<local::Ready>());
    case Type::kSubmitted:
      return CheckSubmitted(As<local::Submitted>());
    case Type::kOpState:
      return CheckOpState(As<local::OpState>());
    case Type::kAwaiting:
      return CheckAwaiting(As<local::Awaiting>());
    case Type::kError:
      return CheckError(As<local::Error>());
    default:
      return Status();
  }
}

}  // namespace causeway::client
