// The engine's messages to and from their wire form (proto/wan.proto).
//
// Encoding cannot fail. Decoding takes hostile bytes: every name, hash, count and number is checked
// against the run's roster and the engine's k...Max before it is used; an error names the field.
// Pure functions, any thread.
#ifndef CAUSEWAY_DAEMON_RUN_MESSAGE_CODEC_H_
#define CAUSEWAY_DAEMON_RUN_MESSAGE_CODEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/engine/message.h"
#include "daemon/engine/record.h"
#include "daemon/run/roster.h"
#include "proto/wan.pb.h"

namespace causeway::run {

inline constexpr uint32_t kWishStop = 1;  // Report.operator_wish
inline constexpr uint32_t kWishGoOn = 2;

wan::v1::RunMessage EncodeEnvelope(const std::string& run, const Roster& roster,
                                   const engine::Envelope& envelope);

// InvalidArgument for anything that the engine must not see. Not for the daemon's own messages
// (schema_detail, hash_detail, ...), which have no envelope.
absl::StatusOr<engine::Envelope> DecodeEnvelope(const Roster& roster,
                                                const wan::v1::RunMessage& message);

wan::v1::Durable EncodeDurable(const Roster& roster, const engine::Durable& durable);
absl::StatusOr<engine::Durable> DecodeDurable(const Roster& roster,
                                              const wan::v1::Durable& durable);

// What a fragment's checkpoint says of itself.
struct CheckpointHeader {
  std::string run;
  std::string cluster;  // whose residual it is
  engine::Hash256 schema{};
  engine::Hash256 algorithm{};
  engine::FragmentId fragment = 0;
  engine::StateId state;
  engine::FoundingId founding = 0;  // of the run that the state is of
  engine::Hash256 state_hash{};     // of values, momentum and rule words
  std::vector<engine::CommitRecord> records;
  std::vector<uint64_t> residual_weights;  // by chunk; none: there is no residual
  std::vector<engine::Hash64> rule_words;  // outer/outer_state.h
};
inline constexpr int kCheckpointChunksMax = 1 << 24;
inline constexpr int kCheckpointWordsMax = 64;

wan::v1::Checkpoint EncodeCheckpoint(const Roster& roster, const CheckpointHeader& header);
absl::StatusOr<CheckpointHeader> DecodeCheckpoint(const Roster& roster,
                                                  const wan::v1::Checkpoint& message);

wan::v1::Epoch EncodeEpoch(const Roster& roster, const engine::Epoch& epoch);
absl::StatusOr<engine::Epoch> DecodeEpoch(const Roster& roster, const wan::v1::Epoch& epoch);

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_MESSAGE_CODEC_H_
