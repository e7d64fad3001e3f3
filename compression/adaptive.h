// `codec: auto`: the least lossy codec whose exchange hides behind computation, and the arithmetic
// of `causeway plan`.
//
// Pure arithmetic on figures that the caller measured; no clock, no I/O. The leader decides and the
// plan of the round carries the decision, so all clusters use the same codec. A chooser belongs to
// one thread.
#ifndef CAUSEWAY_COMPRESSION_ADAPTIVE_H_
#define CAUSEWAY_COMPRESSION_ADAPTIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/codec.h"

namespace causeway::compression {

// What an exchange of one fragment has to fit into.
struct ExchangeConditions {
  uint64_t elements = 0;          // of the fragment
  double bytes_per_second = 0;    // of the slowest link, one direction
  double round_trip_seconds = 0;  // of the slowest link
  double step_seconds = 0;        // one local step of the slowest trainer
  double delay_steps = 0;         // steps between submitting and needing the result; 0 blocks
  double copies = 1;       // times the fragment crosses the slowest link: 1 for two clusters,
                           // 1 + (n - 2) x share where owners reduce
  double round_trips = 1;  // beyond the bytes: 1 direct, 1.5 by owner
};

struct ExchangeEstimate {
  double wire_bytes = 0;      // through the slowest link, framing included
  double seconds = 0;         // from submit to commit
  double budget_seconds = 0;  // delay_steps x step_seconds
  bool hidden = false;        // seconds <= budget_seconds
};

// Framing, TLS and TCP/IP on top of encoded bytes, measured as a share of them.
inline constexpr double kWireOverhead = 0.03;

ExchangeEstimate EstimateExchange(const CodecSpec& spec, const ExchangeConditions& conditions);

// The ladder that `auto` climbs, least lossy first: fp32, bf16, int8, int4, 2bit, sign, btopk; all
// but fp32 with error feedback. `least` and `most` cut it (both included); InvalidArgument when one
// of them is not on the ladder or they are in the wrong order, naming the rungs.
absl::StatusOr<std::vector<CodecSpec>> AutoLadder(absl::string_view least, absl::string_view most);

// Chooses a rung for every round. Goes to a lossier rung as soon as the present one no longer
// hides; back to the less lossy one only after it would have hidden with air for several rounds in
// a row.
class CodecChooser {
 public:
  // A share of the budget that a rung must leave free before the chooser climbs to it.
  static constexpr double kClimbAir = 0.25;
  static constexpr int kClimbRounds = 2;

  // ladder: at least one rung, least lossy first.
  explicit CodecChooser(std::vector<CodecSpec> ladder);

  struct Decision {
    CodecSpec spec;
    ExchangeEstimate estimate;
    bool changed = false;
    std::string reason;  // for log and status: figures and comparison
  };
  // Call once a round, with the latest figures.
  Decision Choose(const ExchangeConditions& conditions);

 private:
  std::vector<CodecSpec> ladder_;
  size_t rung_;
  int rounds_with_air_ = 0;
  bool first_ = true;
};

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_ADAPTIVE_H_
