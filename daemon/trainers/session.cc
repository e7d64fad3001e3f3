// The messages to a trainer. See session.h.
#include "daemon/trainers/session.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/trainers/connection.h"
#include "daemon/trainers/socket.h"

namespace causeway::trainers {
namespace {

// Copies text into a zeroed fixed field, clipped, always terminated.
template <size_t kSize>
void Put(char (&field)[kSize], absl::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), kSize - 1));
}

template <typename Message>
absl::Span<const uint8_t> BytesOf(const Message& message) {
  return {reinterpret_cast<const uint8_t*>(&message), sizeof(message)};
}

}  // namespace

Session::~Session() = default;

template <typename Message>
Message Session::Make(local::Type type, uint64_t answers) const {
  Message message{};
  message.header.magic = local::kMagic;
  message.header.type = static_cast<uint16_t>(type);
  message.header.size = sizeof(Message);
  message.header.answers = answers;
  if (connection_ != nullptr) {
    message.header.version = connection_->version;
    message.header.sequence = connection_->next_sequence++;
  }
  return message;
}

void Session::Send(absl::Span<const uint8_t> message, absl::Span<const int> descriptors) {
  if (connection_ != nullptr && !ended_) connection_->Send(message, descriptors);
}

void Session::SendWelcome(uint64_t answers, const std::string& cluster, uint64_t incarnation) {
  auto message = Make<local::Welcome>(local::Type::kWelcome, answers);
  std::copy(token_.begin(), token_.end(), message.token);
  message.incarnation = incarnation;
  message.session = operations_;
  Put(message.cluster, cluster);
  Send(BytesOf(message), {});
}

void Session::SendJoined(uint64_t answers, const Terms& terms,
                         std::shared_ptr<const schema::Layout> layout, int snapshot_descriptor,
                         int values_descriptor) {
  const std::vector<uint8_t> bytes = layout->Bytes();
  absl::StatusOr<loop::Descriptor> layout_memfd = SealedCopy("causeway layout", bytes);
  if (!layout_memfd.ok()) {
    Problem problem;
    problem.code = local::Code::kMemory;
    problem.retryable = true;
    problem.text = std::string(layout_memfd.status().message());
    SendError(answers, problem);
    return;
  }
  auto message = Make<local::Joined>(local::Type::kJoined, answers);
  message.fragments = static_cast<uint32_t>(layout->fragments().size());
  message.tensors = static_cast<uint32_t>(layout->placements().size());
  message.snapshot_bytes = layout->snapshot_bytes();
  message.values_bytes = layout->values_bytes();
  message.layout_bytes = bytes.size();
  message.local_steps = terms.local_steps;
  message.delay_steps = terms.delay_steps;
  message.mix = terms.mix;
  message.learning_rate = terms.learning_rate;
  message.momentum = terms.momentum;
  message.apply_mode = static_cast<uint8_t>(terms.apply_mode);
  message.outer = terms.outer ? 1 : 0;
  message.wait_timeout_ms = terms.wait_timeout_ms;
  message.peer_timeout_ms = terms.peer_timeout_ms;
  Put(message.rule, terms.rule);
  Put(message.codec, terms.codec);
  layout_ = std::move(layout);
  stage_ = std::max(stage_, Stage::kJoined);
  Send(BytesOf(message), {layout_memfd->get(), snapshot_descriptor, values_descriptor});
}

void Session::SendReady(uint64_t answers, local::Start start, uint32_t members,
                        absl::Span<const int64_t> rounds) {
  assert(layout_ != nullptr && rounds.size() == layout_->fragments().size());
  auto message = Make<local::Ready>(local::Type::kReady, answers);
  message.start = static_cast<uint8_t>(start);
  message.fragments = static_cast<uint32_t>(rounds.size());
  message.members = members;
  std::copy(rounds.begin(), rounds.end(), message.round);
  stage_ = std::max(stage_, Stage::kReady);
  Send(BytesOf(message), {});
}

void Session::SendSubmitted(uint64_t answers, uint64_t op, int64_t round) {
  auto message = Make<local::Submitted>(local::Type::kSubmitted, answers);
  message.op = op;
  message.round = round;
  Send(BytesOf(message), {});
}

void Session::SendOpState(uint64_t answers, const OpReport& report) {
  auto message = Make<local::OpState>(local::Type::kOpState, answers);
  message.op = report.op;
  message.fragment = report.fragment;
  message.state = static_cast<uint8_t>(report.state);
  message.in_doubt = report.in_doubt ? 1 : 0;
  const bool waits =
      report.state == local::State::kPending || report.state == local::State::kStalled;
  message.code = static_cast<uint16_t>(report.code);
  if (waits && report.wanted) message.code = static_cast<uint16_t>(*report.wanted + 1);
  message.round = report.round;
  message.participants = report.participants;
  message.staleness = report.staleness;
  message.raw_bytes = report.raw_bytes;
  message.wire_bytes = report.wire_bytes;
  message.exchange_us = report.exchange_us;
  message.nonfinite = report.nonfinite ? 1 : 0;
  Put(message.awaited, report.awaited);
  Send(BytesOf(message), {});
}

void Session::SendShared(uint64_t answers, bool accepted, absl::string_view reason) {
  auto message = Make<local::Shared>(local::Type::kShared, answers);
  message.accepted = accepted ? 1 : 0;
  device_memory_ = accepted;
  Put(message.reason, reason);
  Send(BytesOf(message), {});
}

void Session::SendAwaiting(uint64_t answers, uint64_t op, uint64_t waited_us,
                           absl::string_view awaited, absl::string_view reason) {
  auto message = Make<local::Awaiting>(local::Type::kAwaiting, answers);
  message.op = op;
  message.waited_us = waited_us;
  Put(message.awaited, awaited);
  Put(message.reason, reason);
  Send(BytesOf(message), {});
}

void Session::SendFinished(uint64_t answers, const schema::Digest& values_hash) {
  auto message = Make<local::Finished>(local::Type::kFinished, answers);
  std::copy(values_hash.begin(), values_hash.end(), message.values_hash);
  stage_ = Stage::kFinished;
  Send(BytesOf(message), {});
}

void Session::SendError(uint64_t answers, const Problem& problem) {
  auto message = Make<local::Error>(local::Type::kError, answers);
  FillError(problem, rank_, message);
  Send(BytesOf(message), {});
  if (!problem.fatal || ended_) return;
  ended_ = true;
  on_end_();
}

void FillError(const Problem& problem, uint32_t rank, local::Error& message) {
  message.code = static_cast<uint16_t>(problem.code);
  message.retryable = problem.retryable ? 1 : 0;
  message.fatal = problem.fatal ? 1 : 0;
  message.rank = problem.rank.value_or(rank);
  message.round = problem.round;
  Put(message.cluster, problem.cluster);
  Put(message.tensor, problem.tensor);
  Put(message.text, problem.text);
}

}  // namespace causeway::trainers
