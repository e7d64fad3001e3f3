// A plan's body and a member's measurements to and from their wire form (proto/wan.proto: PlanBody,
// LinkReport).
//
// Encoding cannot fail. Decoding takes hostile bytes: every name, share, codec and number is
// checked before it is used; an error names the field. Pure functions, any thread.
#ifndef CAUSEWAY_DAEMON_RUN_PLAN_CODEC_H_
#define CAUSEWAY_DAEMON_RUN_PLAN_CODEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/planning/measurements.h"
#include "daemon/planning/plan.h"
#include "daemon/run/roster.h"
#include "proto/wan.pb.h"

namespace causeway::run {

// What a run's configuration lets a leader fix; a plan outside of it is not followed.
struct PlanBounds {
  std::vector<compression::CodecSpec> codecs;  // the configured one; with `auto` its ladder
  bool direct = true;
  bool owner = true;
};

// At most engine::kPlanBytesMax bytes; a longer reason than kReasonBytesMax is cut.
std::string EncodePlan(const Roster& roster, const planning::Plan& plan);
absl::StatusOr<planning::Plan> DecodePlan(const Roster& roster, const PlanBounds& bounds,
                                          const std::string& body);

wan::v1::LinkReport EncodeLinkReport(const Roster& roster, const planning::MemberReport& report);
absl::StatusOr<planning::MemberReport> DecodeLinkReport(const Roster& roster,
                                                        const wan::v1::LinkReport& report);

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_PLAN_CODEC_H_
