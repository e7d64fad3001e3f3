// The engine's side of a run: its life and its events. What it answers is done in run_actions.cc.
#include "daemon/run/run.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/digest/digest.h"
#include "daemon/observe/events.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/message_codec.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

// 0, which fits any, where the kernel gives none.
engine::FoundingId DrawFounding() {
  engine::FoundingId drawn = 0;
  if (::getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) return 0;
  return std::max<engine::FoundingId>(drawn, 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Run>> Run::Create(const Surroundings& around,
                                                 const config::Run& config) {
  auto run = std::unique_ptr<Run>(new Run(around, config));
  absl::StatusOr<engine::Durable> durable = run->file_.Read();
  if (!durable.ok()) return durable.status();
  std::vector<engine::HeldFragment> held = run->Restore(*durable);
  run->StartEngine(*std::move(durable), std::move(held));
  return run;
}

Run::Run(const Surroundings& around, const config::Run& config)
    : around_(around),
      config_(config),
      roster_(config.clusters),
      self_(roster_.Find(around.config->cluster).value()),
      algorithm_digest_(AlgorithmDigest(config)),
      file_(around.config->state_directory, config.name, roster_),
      checkpoints_(
          around, config.name, roster_, algorithm_digest_,
          [this](engine::FragmentId fragment) { return engine_->Records(fragment); },
          [this] {
            const std::optional<engine::Record> record = engine_->Snapshot().record;
            return record ? record->founding : 0;
          }),
      network_(config.name, roster_, self_, around.transport),
      planning_(config_, roster_),
      engine_incarnation_(around.incarnation) {}

Run::~Run() {
  around_.loop->Cancel(timer_);
  around_.loop->Cancel(persist_timer_);
  around_.loop->Cancel(refusal_timer_);
  around_.loop->Cancel(fatal_timer_);
}

void Run::StartEngine(engine::Durable durable, std::vector<engine::HeldFragment> held) {
  engine::Config config;
  config.clusters = roster_.size();
  config.self = self_;
  config.incarnation = engine_incarnation_;
  config.founding = DrawFounding();
  config.electorate.voters = engine::ClusterSet::FirstOf(roster_.size());
  if (!config_.primary.empty()) config.electorate.primary = roster_.Find(config_.primary);
  config.seed_cluster = roster_.Find(config_.seed).value_or(0);
  config.peer_timeout = around_.config->peer_timeout_ms * 1000;
  config.rollback = engine::RollbackPolicy::kAllHere;
  if (config_.grace_ms > 0) {
    config.straggler = engine::StragglerPolicy::kDeadline;
    config.deadline_grace = config_.grace_ms * 1000;
  }
  config.hash = [](std::span<const uint8_t> bytes) {
    return digest::Sha256({bytes.data(), bytes.size()});
  };
  residual_lost_ = durable.accepted.has_value() && CodecOf(config_.codec).error_feedback &&
                   !checkpoints_.residuals_restored();
  if (residual_lost_) {
    around_.log->Warning(event::kRunResidualLost, {{"run", name()}},
                         "restarted: what encoding lost so far begins again at zero");
  }
  engine_ = std::make_unique<engine::Engine>(config, std::move(durable), engine_incarnation_);
  Drive(engine::Start{std::move(held)});
  for (int id = 0; id < roster_.size(); ++id) {
    const auto peer = static_cast<engine::ClusterId>(id);
    if (peer != self_ && network_.connected(peer)) Drive(engine::PeerConnected{peer});
  }
}

// What the disk holds of the run's outer state becomes its value here, so that this gateway can go
// on from it, or give it to others, before a trainer has come.
std::vector<engine::HeldFragment> Run::Restore(const engine::Durable& durable) {
  if (!durable.accepted) {
    checkpoints_.SetAside();
    return {};
  }
  std::optional<schema::Schema> schema = checkpoints_.ReadSchema(*durable.accepted);
  if (!schema) return {};
  const absl::Status built = BuildData(std::make_shared<const schema::Schema>(*std::move(schema)));
  if (!built.ok()) {
    around_.log->Error(event::kCheckpointRefused, {{"run", name()}}, std::string(built.message()));
    return {};
  }
  std::vector<engine::HeldFragment> held =
      checkpoints_.Load(*durable.accepted, {schema_, endpoint_, outer_, exchange_.get()});
  for (const engine::HeldFragment& fragment : held) adopted_.at(fragment.fragment) = true;
  return held;
}

void Run::OnTransportStarted() {
  if (exchange_) network_.SetWindow(WindowBytes(*layout_));
}

// After forgetting: everything anew, as a process that has just started.
void Run::Reset() {
  DropData();
  engine_.reset();
  events_.clear();
  fatal_.reset();
  refused_.reset();
  failure_.clear();
  details_.clear();
  fetches_.clear();
  planning_.Reset();
  around_.loop->Cancel(refusal_timer_);
  around_.loop->Cancel(fatal_timer_);
  around_.loop->Cancel(persist_timer_);  // it would write the forgotten record again
  refusal_timer_ = fatal_timer_ = persist_timer_ = 0;
  ++engine_incarnation_;
  absl::StatusOr<engine::Durable> durable = file_.Read();
  if (!durable.ok()) {
    failure_ = std::string(durable.status().message());
    return;
  }
  StartEngine(*std::move(durable), {});
}

void Run::Drive(const engine::Event& event) {
  events_.push_back(event);
  if (driving_) return;
  driving_ = true;
  while (!events_.empty() && engine_) {
    const engine::Event next = std::move(events_.front());
    events_.pop_front();
    engine_->Handle(loop::Now(), next);
    for (const engine::Action& action : engine_->TakeActions()) {
      std::visit([this](const auto& what) { Do(what); }, action);
    }
  }
  driving_ = false;
  ArmTimer();
  MaybeReady();
  GrowSoon();
}

void Run::ArmTimer() {
  around_.loop->Cancel(timer_);
  timer_ = 0;
  if (!engine_) return;
  const engine::Time next = engine_->NextTimer();
  if (next == engine::kNever) return;
  timer_ = around_.loop->At(next, [this] {
    timer_ = 0;
    Drive(engine::Timer{});
  });
}

// ---------------------------------------------------------------- from the exchange

void Run::OnResultHeld(const engine::ResultHeld& event) { Drive(event); }
void Run::OnStateHeld(const engine::StateHeld& event) { Drive(event); }

void Run::OnStateFailed(const engine::StateFailed& event) {
  around_.log->Warning(
      event::kStateFetched,
      {{"run", name()}, {"fragment", event.fragment}, {"round", event.state.round}},
      "no donor serves this state any more; a newer one is asked for");
  Drive(event);
}

void Run::OnAdopted(engine::FragmentId fragment, const engine::StateId& state) {
  adopted_[fragment] = true;
  around_.log->Info(event::kStateFetched,
                    {{"run", name()}, {"fragment", fragment}, {"round", state.round}},
                    "the fragment's outer state is here");
  Deliver(fragment);
  MaybeReady();
  checkpoints_.OnChange(fragment);
}

void Run::OnCommitted(const exchange::CommitReport& report) {
  const engine::CommitRecord& record = report.record;
  exchange_->state(record.fragment).SetCommitted(record.state);
  adopted_[record.fragment] = true;
  const bool excluded = report.own == engine::OwnPart::kExcluded;
  double exchange_s = 0;
  (excluded ? rounds_excluded_ : rounds_committed_) += 1;
  around_.metrics->rounds.With({name(), excluded ? "excluded" : "committed"}).Add(1);
  if (trainer_) {
    auto it = trainer_->ops.find(record.fragment);
    if (it != trainer_->ops.end() && it->second.id() == report.own_op) {
      LocalOp& op = it->second;
      op.participants = static_cast<uint32_t>(record.contributors.size());
      op.nonfinite = report.nonfinite;
      op.exchange_us = static_cast<uint64_t>(loop::Now() - op.submitted_us);
      exchange_s = static_cast<double>(op.exchange_us) / 1e6;
      last_round_s_[record.fragment] = exchange_s;
      around_.metrics->round_duration_seconds.With({name(), "total"})
          .Observe(last_round_s_[record.fragment]);
    }
  }
  around_.log->Debug(event::kRoundCommitted,
                     {{"run", name()},
                      {"fragment", record.fragment},
                      {"round", record.state.round},
                      {"state", engine::ToString(record.state)},
                      {"contributors", record.contributors.size()}},
                     excluded ? "committed without this cluster" : "committed");
  Deliver(record.fragment);
  MaybeReady();
  checkpoints_.OnChange(record.fragment);
  planning_.OnCommitted(record, exchange_s);
  bad_chunks_.OnCommit();
  TellLeader();
}

void Run::OnBadChunk(engine::ClusterId from, const exchange::ChunkAddress& address,
                     const absl::Status& status) {
  around_.metrics->authorisation_denied.With({"protocol"}).Add(1);
  around_.log->Error(event::kPeerRefused,
                     {{"run", name()},
                      {"peer", roster_.Name(from)},
                      {"fragment", address.fragment},
                      {"round", address.round},
                      {"chunk", address.index}},
                     absl::StrCat("a chunk was refused: ", status.message()));
  // The exchange asks for a better one each time. A peer that has none loses its link for a while,
  // and with it what it takes from others.
  if (!bad_chunks_.Note(from)) return;
  around_.transport->Disconnect(roster_.Name(from), status,
                                absl::Milliseconds(around_.config->peer_timeout_ms));
}

void Run::OnNote(const std::string& text) {
  around_.log->Warning("run.exchange", {{"run", name()}}, text);
}

// ---------------------------------------------------------------- operators

bool Run::Drained() {
  const bool open =
      trainer_ && std::any_of(trainer_->ops.begin(), trainer_->ops.end(),
                              [](const auto& entry) { return !entry.second.reported; });
  return !open && checkpoints_.Flush();
}

std::string Run::Awaited(engine::ClusterSet clusters) const {
  return absl::StrJoin(roster_.Names(clusters), ",");
}

}  // namespace causeway::run
