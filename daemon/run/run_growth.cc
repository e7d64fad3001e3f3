// A trainer that comes with more tensors than the run has: its memory here grows before the run
// does.
//
// The run's fragments keep what they hold and what they have begun; their state is copied into
// memory of the larger layout at a moment at which nothing of it is under way, which comes at the
// latest when no cluster submits any more. Until the engine says that the run has grown, this
// cluster takes no part in rounds, and the same way leads back: a trainer with the run's own
// tensors makes the memory small again.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

}  // namespace

// Both these tensors and those that there is memory for are the run's, or extend them.
bool Run::Extends(const schema::Schema& schema) const {
  if (!exchange_) return false;
  const std::optional<engine::Record> record = engine_->Snapshot().record;
  return record && schema.StageOf(record->schema) && schema_->StageOf(record->schema);
}

void Run::JoinLarger(const trainers::Session& session, const trainers::JoinRequest& request,
                     std::shared_ptr<const schema::Schema> schema) {
  if (!growing_) growing_.emplace(Growing{schema, {}});
  if (growing_->schema->digest() != schema->digest()) growing_ = Growing{schema, {}};
  growing_->joins[session.id()] = request;
  GrowSoon();
}

// Not from within what the exchange reports.
void Run::GrowSoon() {
  if (!growing_ || std::exchange(grow_posted_, true)) return;
  around_.loop->Post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    grow_posted_ = false;
    GrowIfQuiet();
  });
}

void Run::GrowIfQuiet() {
  if (!growing_ || !exchange_) return;
  if (!exchange_->Quiet() || checkpoints_.writing() || !value_holds_.empty()) return;
  const Growing growing = *std::exchange(growing_, std::nullopt);
  const absl::Status grown = GrowData(growing.schema);
  for (const auto& [id, request] : growing.joins) {
    trainers::Session* session = around_.find_session(id);
    if (session == nullptr) continue;
    if (grown.ok()) {
      SendJoined(*session, request);
      continue;
    }
    trainers::Problem problem;
    const bool memory = grown.code() == absl::StatusCode::kResourceExhausted;
    problem.code = memory ? local::Code::kMemory : local::Code::kSchema;
    problem.fatal = true;
    problem.text = absl::StrCat("run '", name(), "' cannot grow here: ", grown.message());
    session->SendError(request.sequence, problem);
  }
  if (grown.ok()) StartFetches();
}

// After an error everything is as it was.
absl::Status Run::GrowData(std::shared_ptr<const schema::Schema> schema) {
  absl::StatusOr<Data> data = MakeData(std::move(schema));
  if (!data.ok()) return data.status();
  if (absl::Status kept = checkpoints_.KeepSchema(*data->schema); !kept.ok()) return kept;
  const engine::Record record = *engine_->Snapshot().record;
  const uint32_t fragments = data->layout->FragmentsUpTo(*data->schema->StageOf(record.schema));
  data->endpoint->TakeOver(*endpoint_, fragments);
  data->outer->TakeOver(*outer_, fragments);
  exchange_->Grow(ExchangeContext(*data), fragments);
  adopted_.resize(fragments);
  around_.log->Info(event::kRunGrows,
                    {{"run", name()},
                     {"fragments", fragments},
                     {"of", data->layout->fragments().size()},
                     {"tensors", data->schema->tensors().size()}},
                    "memory for the trainer's tensors; the run grows once all clusters' have them");
  Use(*std::move(data));
  for (engine::FragmentId f = 0; f < fragments; ++f) {
    if (adopted_[f]) checkpoints_.OnChange(f);
  }
  return absl::OkStatus();
}

// Of the local trainer's tensors those that the run has already.
uint32_t Run::FragmentsBefore() const {
  const std::optional<engine::Record> record = engine_->Snapshot().record;
  if (!record || record->schema == schema_->digest()) return 0;
  return layout_->FragmentsUpTo(*schema_->StageOf(record->schema));
}

std::vector<engine::SchemaId> Run::Extended() const {
  std::vector<engine::SchemaId> out;
  for (uint32_t stage = 0; stage + 1 < schema_->stages(); ++stage) {
    out.push_back({schema_->stage_digest(stage), layout_->FragmentsUpTo(stage)});
  }
  return out;
}

}  // namespace causeway::run
