// How a trainer joins a run: schema, memory, first values, the word to begin; and how it goes.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

trainers::Problem Refusal(local::Code code, std::string text) {
  trainers::Problem out;
  out.code = code;
  out.fatal = true;
  out.text = std::move(text);
  return out;
}

// Gradient averaging has no parameters to agree on: all clusters offer the same nothing.
engine::Hash256 NoParameters() {
  static constexpr uint8_t kText[] = "causeway gradients";
  return outer::Sha256({kText, sizeof(kText) - 1});
}

}  // namespace

std::optional<trainers::Problem> Run::OnHello(trainers::Session& session) {
  if (draining_) return Refusal(local::Code::kDraining, "this gateway is shutting down");
  if (!failure_.empty()) {
    return Refusal(local::Code::kHashMismatch,
                   absl::StrCat("run '", name(), "' has failed: ", failure_,
                                "; restart the gateway once the cause is mended"));
  }
  if (session.world() != 1) {
    return Refusal(local::Code::kIdentityTaken,
                   absl::StrCat("run '", name(),
                                "' takes one trainer process a cluster (its other "
                                "ranks get the result from it); this one says world ",
                                session.world()));
  }
  if (trainer_) {
    return Refusal(local::Code::kIdentityTaken,
                   absl::StrCat("run '", name(), "' already has a trainer on this cluster"));
  }
  trainer_.emplace();
  trainer_->session = session.id();
  finished_ = false;
  around_.metrics->trainers_attached.With({name()}).Set(1);
  around_.log->Info(event::kTrainerAttached, {{"run", name()}, {"pid", session.pid()}},
                    session.describe());
  return std::nullopt;
}

std::optional<trainers::Problem> Run::CheckJoin(const trainers::JoinRequest& request,
                                                const schema::Schema& schema) const {
  if (request.outer != HasOuterRule(config_)) {
    return Refusal(local::Code::kAlgorithm,
                   absl::StrCat("algorithm.rule is '", RuleName(config_.algorithm.rule),
                                "' in this gateway's configuration; the trainer asks for ",
                                request.outer ? "an outer rule" : "averaged gradients"));
  }
  if (request.local_steps != 0 && request.local_steps != config_.algorithm.local_steps) {
    return Refusal(local::Code::kAlgorithm,
                   absl::StrCat("algorithm.local_steps: ", config_.algorithm.local_steps,
                                " in this gateway's configuration, ", request.local_steps,
                                " asked by the trainer"));
  }
  const std::optional<engine::Record> record = engine_->Snapshot().record;
  if (record && record->schema != schema.digest()) {
    std::string text = absl::StrCat("run '", name(), "' was founded with another schema");
    if (schema_ && schema_->digest() == record->schema) {
      const std::vector<std::string> ours = schema_->Lines();
      absl::StrAppend(&text, ": ", schema::FirstDifference(ours, schema.Lines(), "this trainer"));
    }
    absl::StrAppend(&text, "; `causeway run forget ", name(), "` on every gateway begins it anew");
    return Refusal(local::Code::kSchema, text);
  }
  return std::nullopt;
}

void Run::OnJoin(trainers::Session& session, const trainers::JoinRequest& request,
                 schema::Schema schema) {
  if (std::optional<trainers::Problem> problem = CheckJoin(request, schema)) {
    session.SendError(request.sequence, *problem);
    return;
  }
  if (!schema_ || schema_->digest() != schema.digest()) {
    if (trainer_->offered) {
      session.SendError(request.sequence,
                        Refusal(local::Code::kProtocol,
                                "Join with another schema than that of the values offered"));
      return;
    }
    const absl::Status built = BuildData(std::make_shared<const schema::Schema>(std::move(schema)));
    if (!built.ok()) {
      const bool memory = built.code() == absl::StatusCode::kResourceExhausted;
      session.SendError(request.sequence,
                        Refusal(memory ? local::Code::kMemory : local::Code::kSchema,
                                std::string(built.message())));
      return;
    }
    StartFetches();
  }
  trainer_->init = request.init;
  trainer_->joined = true;
  session.SendJoined(request.sequence, TermsOf(), layout_, endpoint_->snapshot_descriptor(),
                     endpoint_->values_descriptor());
}

// What depends on the schema. After an error the run has no data until the next trainer joins.
absl::Status Run::BuildData(std::shared_ptr<const schema::Schema> schema) {
  absl::StatusOr<schema::Layout> layout =
      schema::Layout::Build(*schema, config_.algorithm.fragments);
  if (!layout.ok()) return layout.status();
  auto shared_layout = std::make_shared<const schema::Layout>(*std::move(layout));
  if (!shared_layout->note().empty()) OnNote(shared_layout->note());

  absl::StatusOr<std::shared_ptr<memory::Account>> account =
      around_.budget->Open(absl::StrCat("run ", name()));
  if (!account.ok()) return account.status();
  // A former schema's memory goes first; until there is another, peers may send nothing.
  if (exchange_) network_.SetWindow(0);
  exchange_.reset();
  endpoint_.reset();
  outer_.reset();
  schema_.reset();
  layout_.reset();
  adopted_.clear();

  endpoint::Options options;
  options.run = name();
  options.codec = CodecOf(config_.codec);
  options.outer = HasOuterRule(config_);
  options.encoders_max = static_cast<uint32_t>(around_.workers->threads());
  absl::StatusOr<std::unique_ptr<endpoint::LocalEndpoint>> made =
      endpoint::LocalEndpoint::Create(schema, shared_layout, options, *account);
  if (!made.ok()) return made.status();

  std::vector<outer::FragmentShape> shapes;
  for (const local::FragmentRecord& fragment : shared_layout->fragments()) {
    outer::FragmentShape shape;
    shape.elements = fragment.elements;
    shape.rule = RuleOf(config_.algorithm);
    const bool buffer = static_cast<local::Group>(fragment.group) == local::Group::kBuffer;
    if (buffer && HasOuterRule(config_)) shape.rule = {};  // weighted mean, no momentum
    shapes.push_back(shape);
  }
  absl::StatusOr<std::unique_ptr<outer::OuterState>> outer_state =
      outer::OuterState::Create(shapes, compression::kChunkElements, *account);
  if (!outer_state.ok()) return outer_state.status();

  schema_ = std::move(schema);
  layout_ = std::move(shared_layout);
  endpoint_ = *std::move(made);
  outer_ = *std::move(outer_state);
  adopted_.assign(layout_->fragments().size(), false);
  last_round_s_.assign(layout_->fragments().size(), 0);

  exchange::Context context;
  context.self = self_;
  context.incarnation = engine_incarnation_;
  context.codec = options.codec;
  context.plans = &planning_.book();
  context.layout = layout_;
  context.endpoint = endpoint_;
  context.outer = outer_;
  context.loop = around_.loop;
  context.workers = around_.workers;
  context.buffers = around_.buffers;
  context.port = &network_;
  context.listener = this;
  exchange_ = std::make_unique<exchange::Exchange>(context);
  network_.SetWindow(WindowBytes());
  return absl::OkStatus();
}

// Room for one whole round of a peer where the budget allows it: then no order of arrival can wait
// for another (rounds.md P12).
uint64_t Run::WindowBytes() const {
  uint64_t round = 0;
  for (uint32_t f = 0; f < layout_->fragments().size(); ++f) {
    for (uint32_t c = 0; c < layout_->fragments()[f].chunks; ++c) {
      size_t largest = 0;
      for (const compression::CodecSpec& codec : planning_.codecs()) {
        largest = std::max(largest,
                           compression::EncodedSizeMax(codec, layout_->ChunkElements(f, c)));
      }
      round += largest;
    }
  }
  const uint64_t share = static_cast<uint64_t>(around_.config->memory_bytes) / 4 /
                         static_cast<uint64_t>(std::max(1, roster_.size() - 1));
  const uint64_t most = std::clamp(share, transport::kWindowBytesMin, transport::kWindowBytesMax);
  return std::clamp(2 * round, transport::kWindowBytesMin, most);
}

trainers::Terms Run::TermsOf() const {
  trainers::Terms out;
  out.local_steps = config_.algorithm.local_steps;
  out.delay_steps = config_.algorithm.delay.value_or(local::kDelayAuto);
  out.apply_mode = local::ApplyMode::kCarry;
  out.outer = HasOuterRule(config_);
  out.wait_timeout_ms = static_cast<uint64_t>(config_.wait_timeout_ms);
  out.peer_timeout_ms = static_cast<uint64_t>(around_.config->peer_timeout_ms);
  out.rule = RuleName(config_.algorithm.rule);
  out.codec = CodecText(config_.codec).substr(0, 31);
  return out;
}

void Run::OnOffer(trainers::Session& session, uint64_t sequence) {
  if (trainer_->announced) {  // a resumed session that has not seen the answer
    trainer_->ready = false;
    MaybeReady();
    return;
  }
  if (std::exchange(trainer_->offered, true)) return;  // likewise; it is looked at
  if (!HasOuterRule(config_)) {
    AnnounceTrainer(NoParameters());
    return;
  }
  struct Found {
    engine::Hash256 digest;
    std::optional<std::string> nonfinite;
  };
  auto found = std::make_shared<Found>();  // shared by the two halves
  around_.workers->Submit([this, endpoint = endpoint_, found, sequence, id = session.id(),
                           loop = around_.loop, alive = std::weak_ptr<bool>(alive_)] {
    for (uint32_t f = 0; f < endpoint->layout().fragments().size() && !found->nonfinite; ++f) {
      found->nonfinite = endpoint->NonFiniteInSnapshot(f);
    }
    found->digest = endpoint->SnapshotDigest();
    loop->Post([this, alive, found, sequence, id] {
      if (alive.expired() || !trainer_ || trainer_->session != id) return;
      if (found->nonfinite) {
        trainers::Problem problem =
            Refusal(local::Code::kNonfinite,
                    absl::StrCat("tensor '", *found->nonfinite,
                                 "' holds NaN or Inf: the run cannot begin from it"));
        problem.tensor = *found->nonfinite;
        if (trainers::Session* trainer = this->session()) trainer->SendError(sequence, problem);
        return;
      }
      AnnounceTrainer(found->digest);
    });
  });
}

void Run::AnnounceTrainer(const engine::Hash256& parameters) {
  trainer_->announced = true;
  engine::TrainerJoined joined;
  joined.session = trainer_->session;
  joined.schema = schema_->digest();
  joined.algorithm = algorithm_digest_;
  joined.fragments = static_cast<uint32_t>(layout_->fragments().size());
  joined.has_parameters = true;
  joined.parameters = parameters;
  Drive(joined);
}

std::vector<int64_t> Run::CommittedRounds() const {
  std::vector<int64_t> out;
  for (engine::FragmentId f = 0; f < exchange_->size(); ++f) {
    out.push_back(exchange_->state(f).committed().round);
  }
  return out;
}

bool Run::Committing() const {
  for (engine::FragmentId f = 0; exchange_ && f < exchange_->size(); ++f) {
    if (exchange_->rounds(f).committing()) return true;
  }
  return false;
}

// While a worker reads the present values, no second commit may overwrite them.
uint64_t Run::HoldValues() {
  value_holds_[++value_hold_] = exchange_->HoldCommits();
  return value_hold_;
}

// The trainer may begin once this gateway is a member and every fragment's value is here, as new as
// the membership says.
void Run::MaybeReady() {
  if (!trainer_ || !trainer_->announced || trainer_->ready || checking_ready_ || !exchange_) return;
  if (std::find(adopted_.begin(), adopted_.end(), false) != adopted_.end()) return;
  if (Committing()) return;
  const engine::Status status = engine_->Snapshot();
  if (status.phase != engine::Phase::kActive) return;
  const std::vector<int64_t> rounds = CommittedRounds();
  // A new epoch may have committed a round with what this cluster sent before its gateway
  // restarted. Only who holds the epoch's base can say what became of an operation; "unknown" would
  // have it submitted, and counted, a second time.
  const std::vector<engine::FragmentBase>& base = status.record->base;
  for (size_t f = 0; f < std::min(rounds.size(), base.size()); ++f) {
    if (rounds[f] < base[f].round) return;
  }
  if (!HasOuterRule(config_)) {
    SendReady(true, rounds);
    return;
  }
  checking_ready_ = true;
  auto matches = std::make_shared<bool>(true);  // shared by the two halves
  around_.workers->Submit([this, endpoint = endpoint_, rounds, matches, hold = HoldValues(),
                           loop = around_.loop, id = trainer_->session,
                           alive = std::weak_ptr<bool>(alive_)] {
    for (uint32_t f = 0; f < rounds.size() && *matches; ++f) {
      *matches = endpoint->SnapshotMatches(f, rounds[f]);
    }
    loop->Post([this, alive, rounds, matches, hold, id] {
      if (alive.expired()) return;
      checking_ready_ = false;
      value_holds_.erase(hold);
      if (trainer_ && trainer_->session == id && !Committing() && CommittedRounds() == rounds) {
        SendReady(*matches, rounds);
      } else {
        MaybeReady();  // a round was committed meanwhile, or another trainer waits
      }
    });
  });
}

void Run::SendReady(bool matches, const std::vector<int64_t>& rounds) {
  trainers::Session* trainer = session();
  if (trainer == nullptr) return;
  const bool fresh = std::all_of(rounds.begin(), rounds.end(), [](int64_t r) { return r == 0; });
  const bool refuses =
      trainer_->init == local::Init::kMatch || (trainer_->init == local::Init::kMine && !fresh);
  if (!matches && refuses) {
    trainer->SendError(
        0, Refusal(local::Code::kInit, absl::StrCat("run '", name(),
                                                    "' holds other values than the "
                                                    "trainer's, and init forbids taking them")));
    return;
  }
  trainer_->ready = true;
  const engine::Status status = engine_->Snapshot();
  trainer->SendReady(0, matches ? local::Start::kMatch : local::Start::kReplace,
                     static_cast<uint32_t>(status.record ? status.record->members.Count() : 1),
                     rounds);
}

void Run::OnGone(trainers::Session& session, trainers::Gone gone, const std::string& detail) {
  if (!trainer_ || trainer_->session != session.id()) return;
  const bool left = gone == trainers::Gone::kLeft;
  finished_ = left;
  const bool announced = trainer_->announced;
  const uint64_t id = trainer_->session;
  trainer_.reset();
  planning_.OnTrainerGone();
  if (refused_ && refused_->session == id) refused_.reset();
  around_.metrics->trainers_attached.With({name()}).Set(0);
  around_.log->Info(left ? event::kRunFinished : event::kTrainerGone,
                    {{"run", name()}, {"how", trainers::GoneName(gone)}}, detail);
  if (announced) Drive(engine::TrainerGone{id, !left});
}

}  // namespace causeway::run
