// What a trainer may ask, parsed from one datagram. Pure functions over hostile bytes; any thread.
//
// A Request has passed every check that needs no knowledge of the session: magic, version, type,
// size, zero padding, terminated strings, ranges, number of descriptors. `sequence` goes into the
// answer's `answers`. Does not: know sessions or layouts (session_table.h does).
#ifndef CAUSEWAY_DAEMON_TRAINERS_REQUEST_H_
#define CAUSEWAY_DAEMON_TRAINERS_REQUEST_H_

#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/local_protocol.h"

namespace causeway::trainers {

using Token = std::array<uint8_t, 16>;

struct HelloRequest {
  uint64_t sequence = 0;
  uint16_t version_min = 0;
  uint16_t version_max = 0;
  uint32_t rank = 0;
  uint32_t world = 1;
  Token token{};  // all zero: a new session
  std::string run;
};

struct JoinRequest {
  uint64_t sequence = 0;
  uint32_t tensors = 0;  // records in the schema memfd that came beside it
  local::Init init = local::Init::kRun;
  bool outer = true;
  uint32_t local_steps = 0;  // 0: whatever the run's configuration says
};

struct ShareRequest {
  uint64_t sequence = 0;
  uint64_t bytes = 0;  // of the allocation whose descriptor came beside it; not 0
  local::DeviceMemory kind = local::DeviceMemory::kCudaVmm;
  std::array<uint8_t, 16> device{};  // UUID
};

struct OfferRequest {
  uint64_t sequence = 0;
  uint32_t slices = 0;  // records in the memfd that came beside it; 0: none came, all of it
};

struct SubmitRequest {
  uint64_t sequence = 0;
  uint64_t op = 0;  // not 0
  uint32_t fragment = 0;
  local::Origin origin = local::Origin::kBase;
  local::Memory memory = local::Memory::kHost;
  int64_t base_round = 0;  // not negative
  uint64_t weight = 0;
  std::string label;  // for the state that the round commits; empty: none
};

struct AppliedRequest {
  uint64_t sequence = 0;
  uint32_t fragment = 0;
  int64_t round = 0;
  uint32_t computing_us = 0;  // since the fragment was last applied, without waiting; 0: unknown
};

struct AbandonRequest {
  uint64_t sequence = 0;
  uint64_t op = 0;
};

struct QueryRequest {
  uint64_t sequence = 0;
  uint64_t session = 0;
  uint64_t op = 0;
};

struct AwaitRequest {
  uint64_t sequence = 0;
  uint64_t op = 0;  // 0: whatever the run waits for
};

struct FinishRequest {
  uint64_t sequence = 0;
};

struct LeaveRequest {
  uint64_t sequence = 0;
};

using Request = std::variant<HelloRequest, JoinRequest, ShareRequest, OfferRequest, SubmitRequest,
                             AppliedRequest, AbandonRequest, QueryRequest, AwaitRequest,
                             FinishRequest, LeaveRequest>;

// `version`: what the session agreed on; 0 before Hello, which is the only legal message then (and
// never later). `descriptors`: how many came beside the datagram. InvalidArgument names the field.
absl::StatusOr<Request> ParseRequest(absl::Span<const uint8_t> datagram, size_t descriptors,
                                     uint16_t version);

uint64_t SequenceOf(const Request& request);
const char* RequestName(const Request& request);

// The highest version that both sides speak; InvalidArgument names both windows.
absl::StatusOr<uint16_t> ChooseVersion(uint16_t version_min, uint16_t version_max);

}  // namespace causeway::trainers

#endif  // CAUSEWAY_DAEMON_TRAINERS_REQUEST_H_
