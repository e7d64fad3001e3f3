// A run as `causeway status` shows it.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/run.h"
#include "proto/admin.pb.h"

namespace causeway::run {
namespace {

const char* StateOf(engine::Phase phase) {
  switch (phase) {
    case engine::Phase::kForming:
    case engine::Phase::kJoining:
      return "forming";
    case engine::Phase::kChanging:
    case engine::Phase::kActive:
      return "running";
    case engine::Phase::kStalled:
      return "stalled";
    case engine::Phase::kHalted:
      return "stopped";
    case engine::Phase::kStopped:
      return "failed";
  }
  return "unknown";
}

}  // namespace

std::string Run::ReasonOf(const engine::Status& status) const {
  if (status.phase != engine::Phase::kForming) return status.reason;
  std::vector<std::string> silent;
  for (engine::ClusterId cluster : status.awaited) {
    if (network_.connected(cluster) && network_.engine_incarnation(cluster) == 0) {
      silent.push_back(roster_.Name(cluster));
    }
  }
  if (silent.empty()) return status.reason;
  return absl::StrCat(status.reason, "; nothing was heard of this run from ",
                      absl::StrJoin(silent, ", "), ", which is linked: is run '", name(),
                      "' in its configuration?");
}

void Run::FillStatus(admin::v1::RunStatus* out) const {
  out->set_name(name());
  out->set_rule(config::RuleName(config_.algorithm.rule));
  out->set_codec(CodecText(config_.codec));
  out->set_local_steps(config_.algorithm.local_steps);
  out->set_trainers(trainer_ ? static_cast<uint32_t>(trainer_->ranks.size()) : 0);
  out->set_rounds_committed(rounds_committed_);
  out->set_rounds_excluded(rounds_excluded_);
  out->set_wire_bytes_sent(network_.chunk_bytes_sent());
  out->set_wire_bytes_received(chunk_bytes_received_);
  out->set_residual_lost(residual_lost_);
  checkpoints_.FillStatus(out->mutable_checkpoint());
  if (!engine_ || !failure_.empty()) {
    out->set_state("failed");
    out->set_detail(failure_);
    return;
  }
  const engine::Status status = engine_->Snapshot();
  const bool halted = status.phase == engine::Phase::kHalted;
  out->set_state(!trainer_ && !halted ? (finished_ ? "finished" : "waiting-for-trainers")
                                      : StateOf(status.phase));
  std::string detail = stall_reason_.empty() ? ReasonOf(status) : stall_reason_;
  if (!status.foreign.Empty()) {
    absl::StrAppend(&detail, detail.empty() ? "" : "; ", ForeignText(status.foreign));
  }
  out->set_detail(std::move(detail));
  if (status.record) {
    out->set_epoch(engine::ToString(status.record->epoch));
    for (const std::string& member : roster_.Names(status.record->members)) {
      out->add_members(member);
    }
    for (const std::string& voter : roster_.Names(status.record->electorate.voters)) {
      out->add_voters(voter);
    }
    out->set_leader(roster_.Name(status.record->leader));
  }
  for (const std::string& cluster : roster_.Names(status.awaited)) out->add_awaited(cluster);
  FillPlan(out->mutable_plan());
  if (!exchange_) return;
  out->set_elements(layout_->elements());
  for (engine::FragmentId f = 0; f < exchange_->size(); ++f) {
    const exchange::FragmentProgress progress = exchange_->rounds(f).Progress();
    admin::v1::FragmentStatus* fragment = out->add_fragments();
    fragment->set_fragment(f);
    fragment->set_round(exchange_->state(f).committed().round);
    fragment->set_phase(progress.phase);
    fragment->set_chunks_total(progress.chunks_total);
    fragment->set_chunks_reduced(progress.chunks_reduced);
    fragment->set_last_round_s(last_round_s_[f]);
    if (const std::optional<exchange::FetchProgress> moved = exchange_->state(f).Progress()) {
      admin::v1::TransferStatus* transfer = fragment->mutable_transfer();
      transfer->set_bytes(moved->bytes);
      transfer->set_bytes_total(moved->bytes_total);
      transfer->set_bytes_per_s(moved->bytes_per_s);
      transfer->set_silent_s(moved->silent_s);
      for (const std::string& donor : roster_.Names(moved->donors)) transfer->add_donors(donor);
    }
    if (f < status.fragments.size()) {
      const engine::FragmentStatus& known = status.fragments[f];
      const engine::ClusterSet missing = known.phase == engine::RoundPhase::kComplete
                                             ? known.contributors - known.completed
                                             : known.contributors - known.announced;
      if (known.phase != engine::RoundPhase::kIdle) {
        for (const std::string& cluster : roster_.Names(missing)) fragment->add_awaited(cluster);
      }
    }
  }
}

}  // namespace causeway::run
