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

}  // namespace

std::optional<trainers::Problem> Run::OnHello(trainers::Session& session) {
  if (draining_) return Refusal(local::Code::kDraining, "this gateway is shutting down");
  if (!failure_.empty()) {
    return Refusal(local::Code::kHashMismatch,
                   absl::StrCat("run '", name(), "' has failed: ", failure_,
                                "; restart the gateway once the cause is mended"));
  }
  if (trainer_ && session.world() != trainer_->world) {
    return Refusal(local::Code::kIdentityTaken,
                   absl::StrCat("run '", name(), "' has trainers of world ", trainer_->world,
                                " on this cluster; this one says world ", session.world()));
  }
  if (trainer_ && trainer_->ranks.count(session.rank()) != 0) {
    return Refusal(local::Code::kIdentityTaken, absl::StrCat("run '", name(), "' already has rank ",
                                                             session.rank(), " of this cluster"));
  }
  if (!trainer_) {
    trainer_.emplace();
    trainer_->session = session.id();
    trainer_->world = session.world();
    finished_ = false;
  }
  session.set_operations(trainer_->session);
  trainer_->ranks[session.rank()].session = session.id();
  around_.metrics->trainers_attached.With({name()}).Set(
      static_cast<double>(trainer_->ranks.size()));
  around_.log->Info(event::kTrainerAttached, {{"run", name()}, {"pid", session.pid()}},
                    session.describe());
  return std::nullopt;
}

std::optional<trainers::Problem> Run::CheckJoin(const trainers::JoinRequest& request,
                                                const schema::Schema& schema) const {
  if (request.outer != HasOuterRule(config_)) {
    return Refusal(local::Code::kAlgorithm,
                   absl::StrCat("algorithm.rule is '", config::RuleName(config_.algorithm.rule),
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
  if (record && !schema.StageOf(record->schema)) {
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
  LocalRank& rank = trainer_->ranks.at(session.rank());
  if (!schema_ || schema_->digest() != schema.digest()) {
    if (trainer_->AnyJoined() && (trainer_->world > 1 || rank.offered)) {
      session.SendError(
          request.sequence,
          Refusal(local::Code::kSchema,
                  absl::StrCat("this cluster's trainer has joined with another schema: ",
                               schema::FirstDifference(schema_->Lines(), schema.Lines(),
                                                       absl::StrCat("rank ", session.rank())))));
      return;
    }
    auto shared = std::make_shared<const schema::Schema>(std::move(schema));
    if (Extends(*shared)) {
      JoinLarger(session, request, std::move(shared));
      return;
    }
    const absl::Status built = BuildData(std::move(shared));
    if (!built.ok()) {
      const bool memory = built.code() == absl::StatusCode::kResourceExhausted;
      session.SendError(request.sequence,
                        Refusal(memory ? local::Code::kMemory : local::Code::kSchema,
                                std::string(built.message())));
      return;
    }
    StartFetches();
  }
  SendJoined(session, request);
}

void Run::SendJoined(trainers::Session& session, const trainers::JoinRequest& request) {
  trainer_->init = std::max(trainer_->init, request.init);  // the strictest of its ranks
  trainer_->ranks.at(session.rank()).joined = true;
  session.SendJoined(request.sequence, TermsOf(), layout_, endpoint_->snapshot_descriptor(),
                     endpoint_->values_descriptor());
}

// Until there is another schema, peers may send nothing.
void Run::DropData() {
  if (exchange_) network_.SetWindow(0);
  checkpoints_.Detach();
  if (trainer_) trainer_->device.reset();  // it was mapped for that schema's layout
  exchange_.reset();
  reserve_.reset();
  endpoint_.reset();
  outer_.reset();
  schema_.reset();
  layout_.reset();
  adopted_.clear();
}

absl::StatusOr<Run::Data> Run::MakeData(std::shared_ptr<const schema::Schema> schema) const {
  Data data;
  absl::StatusOr<schema::Layout> layout =
      schema::Layout::Build(*schema, config_.algorithm.fragments);
  if (!layout.ok()) return layout.status();
  data.schema = std::move(schema);
  data.layout = std::make_shared<const schema::Layout>(*std::move(layout));

  absl::StatusOr<std::shared_ptr<memory::Account>> account =
      around_.budget->Open(absl::StrCat("run ", name()));
  if (!account.ok()) return account.status();
  endpoint::Options options;
  options.run = name();
  options.codec = CodecOf(config_.codec);
  options.residual =
      config_.codec.residual_fp32 ? compression::DType::kFp32 : compression::DType::kBf16;
  options.outer = HasOuterRule(config_);
  options.encoders_max = static_cast<uint32_t>(around_.workers->threads());
  options.correction = CorrectionOf(config_);
  absl::StatusOr<std::unique_ptr<endpoint::LocalEndpoint>> made =
      endpoint::LocalEndpoint::Create(data.schema, data.layout, options, *account);
  if (!made.ok()) return made.status();
  data.endpoint = *std::move(made);

  std::vector<outer::FragmentShape> shapes;
  for (const local::FragmentRecord& fragment : data.layout->fragments()) {
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
  data.outer = *std::move(outer_state);

  absl::StatusOr<std::unique_ptr<exchange::Reserve>> reserve = exchange::Reserve::Create(
      around_.buffers, *account,
      exchange::Reserve::SizesFor(*data.layout, planning_.codecs(),
                                  roster_.size() > 2 && config_.route != config::Route::kDirect));
  if (!reserve.ok()) return reserve.status();
  data.reserve = *std::move(reserve);
  return data;
}

exchange::Context Run::ExchangeContext(const Data& data) {
  exchange::Context context;
  context.self = self_;
  context.incarnation = engine_incarnation_;
  context.plans = &planning_.book();
  context.layout = data.layout;
  context.endpoint = data.endpoint;
  context.outer = data.outer;
  context.entropy = entropy_;
  context.mean_of_senders = config_.algorithm.mean_of_senders;
  context.loop = around_.loop;
  context.workers = around_.workers;
  context.buffers = around_.buffers;
  context.reserve = data.reserve.get();
  context.port = &network_;
  context.listener = this;
  context.window_bytes = WindowBytes(*data.layout);
  return context;
}

// The exchange refers to it already.
void Run::Use(Data data) {
  schema_ = std::move(data.schema);
  layout_ = std::move(data.layout);
  endpoint_ = std::move(data.endpoint);
  outer_ = std::move(data.outer);
  reserve_ = std::move(data.reserve);
  if (!layout_->note().empty()) OnNote(layout_->note());
  adopted_.resize(layout_->fragments().size(), false);
  last_round_s_.resize(layout_->fragments().size(), 0);
  if (engine_) {
    const std::optional<engine::Record> record = engine_->Snapshot().record;
    if (record) exchange_->OnEpoch(*record);
  }
  checkpoints_.Attach({schema_, endpoint_, outer_, exchange_.get()});
  network_.SetWindow(WindowBytes(*layout_));
}

// After an error the run has no data until the next trainer joins.
absl::Status Run::BuildData(std::shared_ptr<const schema::Schema> schema) {
  DropData();  // a former schema's memory goes first
  absl::StatusOr<Data> data = MakeData(std::move(schema));
  if (!data.ok()) return data.status();
  exchange_ = std::make_unique<exchange::Exchange>(ExchangeContext(*data));
  Use(*std::move(data));
  return absl::OkStatus();
}

// Room for one whole round of a peer where the budget allows it: then no order of arrival can wait
// for another.
uint64_t Run::WindowBytes(const schema::Layout& layout) const {
  uint64_t round = 0;
  for (uint32_t f = 0; f < layout.fragments().size(); ++f) {
    for (uint32_t c = 0; c < layout.fragments()[f].chunks; ++c) {
      size_t largest = 0;
      for (const compression::CodecSpec& codec : planning_.codecs()) {
        largest = std::max(largest, compression::EncodedSizeMax(codec, layout.ChunkElements(f, c)));
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
  if (config_.algorithm.mix) {
    out.apply_mode = local::ApplyMode::kMix;
    out.mix = static_cast<float>(*config_.algorithm.mix);
  } else if (config_.algorithm.round_late) {
    out.apply_mode = local::ApplyMode::kReplace;
  }
  out.learning_rate = static_cast<float>(config_.algorithm.learning_rate);
  out.momentum = static_cast<float>(config_.algorithm.momentum);
  out.outer = HasOuterRule(config_);
  out.wait_timeout_ms = static_cast<uint64_t>(config_.wait_timeout_ms);
  out.peer_timeout_ms = static_cast<uint64_t>(around_.config->peer_timeout_ms);
  out.rule = config::RuleName(config_.algorithm.rule);
  out.codec = CodecText(config_.codec).substr(0, 31);
  return out;
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

// What waited may report a value that is here now, and that lead to another HoldValues before this
// one is over: the map must not be in the middle of an erase then.
void Run::AllowValues(uint64_t hold) { const auto ended = value_holds_.extract(hold); }

void Run::OnGone(trainers::Session& session, trainers::Gone gone, const std::string& detail) {
  if (!trainer_ || !trainer_->Has(session.id())) return;
  const bool left = gone == trainers::Gone::kLeft;
  around_.log->Info(left ? event::kRunFinished : event::kTrainerGone,
                    {{"run", name()}, {"rank", session.rank()}, {"how", trainers::GoneName(gone)}},
                    detail);
  if (left) {
    trainer_->ranks.at(session.rank()).left = true;
    if (!trainer_->All([](const LocalRank& rank) { return rank.left; })) return;
  }
  EndTrainer(session, left);
}

// The others of its ranks cannot go on without one: its part of the model is gone.
void Run::EndTrainer(const trainers::Session& gone, bool left) {
  const LocalTrainer ended = *std::exchange(trainer_, std::nullopt);
  growing_.reset();
  planning_.OnTrainerGone();
  finished_ = left;
  if (refused_ && refused_->session == ended.session) refused_.reset();
  around_.metrics->trainers_attached.With({name()}).Set(0);
  trainers::Problem problem = Refusal(
      local::Code::kComm, absl::StrCat("rank ", gone.rank(), " of this cluster's trainer (process ",
                                       gone.pid(), ") is gone; start all of its ranks again"));
  problem.rank = gone.rank();
  for (const auto& [number, rank] : ended.ranks) {
    if (rank.session == gone.id() || rank.left) continue;
    if (trainers::Session* other = around_.find_session(rank.session)) other->SendError(0, problem);
  }
  if (ended.announced) Drive(engine::TrainerGone{ended.session, !left});
}

void Run::RefuseAll(const trainers::Problem& problem) {
  ForEachRank(
      [&](trainers::Session& session, uint32_t, LocalRank&) { session.SendError(0, problem); });
}

}  // namespace causeway::run
