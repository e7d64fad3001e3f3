// What an operator does to a run.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/observe/events.h"
#include "daemon/run/run.h"
#include "proto/admin.pb.h"

namespace causeway::run {
namespace {

namespace event = observe::event;
using Request = admin::v1::ChangeRunRequest;

}  // namespace

absl::StatusOr<std::string> Run::Change(const Request& request) {
  if (request.verb() == Request::FORGET) return Forget();
  if (absl::Status founded = CheckFounded(); !founded.ok()) return founded;
  around_.log->Info(event::kRunOperator,
                    {{"run", name()}, {"verb", Request::Verb_Name(request.verb())}},
                    "asked by the operator");
  switch (request.verb()) {
    case Request::STOP:
      Drive(engine::StopRequested{true});
      return absl::StrCat("run '", name(), "' will stand still on all clusters at one round; ",
                          "`causeway status` says 'stopped' then");
    case Request::START:
      Drive(engine::StopRequested{false});
      return absl::StrCat("run '", name(), "' will go on");
    case Request::LEAVE:
      Drive(engine::LeaveRequested{});
      return absl::StrCat("this cluster leaves run '", name(),
                          "' as soon as the others can go on without it");
    case Request::VOTERS:
      return ChangeVoters(request);
    case Request::APPROVE_ROLLBACK:
      Drive(engine::ApproveRollback{});
      return absl::StrCat("run '", name(), "' may undo rounds, until its next membership");
    default:
      return absl::InvalidArgumentError("the gateway does not know what is asked of it");
  }
}

absl::Status Run::CheckFounded() const {
  if (!engine_ || !failure_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("run '", name(), "' has failed: ", failure_));
  }
  if (engine_->Snapshot().record) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("run '", name(), "' has not begun on this gateway"));
}

absl::StatusOr<std::string> Run::ChangeVoters(const Request& request) {
  engine::Electorate electorate;
  const auto known = [this](const std::string& cluster) -> absl::StatusOr<engine::ClusterId> {
    if (std::optional<engine::ClusterId> id = roster_.Find(cluster)) return *id;
    return absl::InvalidArgumentError(
        absl::StrCat("'", cluster, "' is not a cluster of run '", name(), "', which has ",
                     Awaited(engine::ClusterSet::FirstOf(roster_.size()))));
  };
  for (const std::string& voter : request.voters()) {
    absl::StatusOr<engine::ClusterId> id = known(voter);
    if (!id.ok()) return id.status();
    electorate.voters.Insert(*id);
  }
  if (electorate.voters.Empty()) return absl::InvalidArgumentError("no voters were named");
  if (!request.primary().empty()) {
    absl::StatusOr<engine::ClusterId> id = known(request.primary());
    if (!id.ok()) return id.status();
    if (!electorate.voters.Contains(*id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the primary, '", request.primary(), "', is not among the voters"));
    }
    electorate.primary = *id;
  }
  const engine::Status status = engine_->Snapshot();
  if (status.record->leader != self_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "run '", name(), "' is led by ", roster_.Name(status.record->leader), "; ask its gateway"));
  }
  const bool leads =
      status.phase == engine::Phase::kActive || status.phase == engine::Phase::kHalted;
  if (!leads) {
    return absl::FailedPreconditionError(
        absl::StrCat("run '", name(), "' is ", engine::PhaseName(status.phase), ": ", status.reason,
                     "; change its voters when it runs again"));
  }
  Drive(engine::ChangeElectorate{electorate});
  return absl::StrCat("the voters of run '", name(), "' will be ", Awaited(electorate.voters),
                      " once all of them are heard");
}

// All that is here is to be on disk, whatever lies there.
void Run::KeepOnDisk() {
  checkpoints_.Attach({schema_, endpoint_, outer_, exchange_.get()});
  for (engine::FragmentId fragment = 0; fragment < adopted_.size(); ++fragment) {
    if (adopted_[fragment]) checkpoints_.OnChange(fragment);
  }
}

absl::StatusOr<std::string> Run::Forget() {
  if (trainer_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "run '", name(), "' has a trainer attached; end it first, then forget the run"));
  }
  // The record goes last: without it, nothing that lies here is used.
  absl::Status removed = checkpoints_.Remove();
  if (removed.ok()) removed = file_.Remove();
  if (!removed.ok()) {
    if (exchange_) KeepOnDisk();  // the run goes on as it was
    return removed;
  }
  Reset();
  rounds_committed_ = rounds_excluded_ = 0;
  finished_ = false;
  around_.log->Info(event::kRunForgotten, {{"run", name()}}, "state removed");
  return absl::StrCat("run '", name(), "' is forgotten on this gateway; do the same on its other ",
                      "clusters, or it rejoins them as one that lost its disk");
}

}  // namespace causeway::run
