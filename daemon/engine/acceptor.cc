// Between a promise and the next INSTALLED the context is frozen: what was reported stays as it is,
// so a candidate may build on it. Rejected alternative: keep copies of the reported
// values.
#include "daemon/engine/acceptor.h"

#include <algorithm>
#include <cassert>

namespace causeway::engine {

uint64_t Acceptor::GivePromise(const Epoch& epoch, bool founding) {
  assert(epoch > context_.durable.promised);
  context_.durable.promised = epoch;
  if (founding && context_.durable.Blank()) context_.durable.founding = true;
  context_.frozen = true;
  context_.counter_seen = std::max(context_.counter_seen, epoch.counter);
  if (context_.Member() && context_.installed) {
    context_.Act(Fenced{epoch, "a membership change is under way"});
  }
  return context_.Persist();
}

uint64_t Acceptor::AcceptRecord(const Record& record) {
  assert(record.epoch >= context_.durable.promised ||
         context_.config.Planted(PlantedFault::kIgnorePromise));
  first_record_ = !context_.HasRecord();
  context_.durable.promised = record.epoch;
  context_.durable.accepted = record;
  const auto fragments = static_cast<uint32_t>(record.base.size());
  if (fragments > rounds_.size()) rounds_.Resize(fragments);  // the run has grown
  context_.kept_memory = true;
  context_.installed = false;
  context_.frozen = true;
  context_.installed_at = context_.now;
  context_.draining = false;
  if (!record.electorate.voters.Contains(context_.self())) context_.leaving = false;
  context_.counter_seen = std::max(context_.counter_seen, record.epoch.counter);
  return context_.Persist();
}

void Acceptor::MarkInstalled() {
  if (context_.installed || !context_.kept_memory || context_.Fenced()) return;
  const Record& record = context_.record();
  context_.installed = true;
  context_.frozen = false;
  context_.rollback_approved = false;
  if (context_.stop_wish == record.stopped) context_.stop_wish.reset();
  context_.installed_at = context_.now;
  const bool at_start = std::all_of(record.base.begin(), record.base.end(),
                                    [](const FragmentBase& base) { return base.round == 0; });
  if (first_record_ && at_start && record.lineage == 0) {
    context_.Act(RunFormed{record, context_.config.seed_cluster});
  }
  context_.Act(EpochInstalled{record});
  rounds_.Adopt();
}

void Acceptor::OnPrepare(ClusterId from, const Header& header, const Prepare& body) {
  const Epoch& epoch = header.epoch;
  if (epoch.candidate != from || epoch < context_.durable.promised) return;
  // A run that exists is not founded again, and a wiped disk stays a wiped one.
  if (body.founding && context_.RunExists()) return;
  // A repeat is the same report: the freeze keeps it so.
  if (epoch > context_.durable.promised) GivePromise(epoch, body.founding);
  if (context_.HasRecord() && context_.record().epoch >= epoch) return;
  context_.SendWhenDurable(from, epoch, header.lineage,
                           Promise{MakeReport(), context_.durable.accepted});
}

void Acceptor::OnInstall(ClusterId from, const Install& body) {
  const Record& record = body.record;
  if (record.leader != from || !record.members.Contains(context_.self())) return;
  if (record.incarnations[context_.self()] != context_.config.incarnation &&
      !context_.config.Planted(PlantedFault::kNoIncarnations)) {
    return;
  }
  const bool newer = !context_.HasRecord() || record.epoch > context_.record().epoch;
  const bool promised_more = record.epoch < context_.durable.promised &&
                             !context_.config.Planted(PlantedFault::kIgnorePromise);
  if (newer && !promised_more) AcceptRecord(record);
  if (context_.HasRecord() && context_.record().epoch == record.epoch && context_.kept_memory) {
    context_.SendWhenDurable(from, record.epoch, record.lineage, Accepted{});
  }
}

void Acceptor::OnInstalled(const Header& header) {
  if (context_.HasRecord() && context_.record().epoch == header.epoch) MarkInstalled();
}

void Acceptor::OnReport(const Report& report) {
  context_.counter_seen = std::max(context_.counter_seen, report.promised.counter);
  const bool moot = report.active && report.accepted >= context_.durable.promised &&
                    (!context_.HasRecord() || context_.record().epoch < report.accepted);
  if (moot) context_.frozen = false;
}

bool Acceptor::WantsJoin() const {
  if (context_.stopped || context_.leaving) return false;
  return !context_.Active() || context_.Outdated();
}

Report Acceptor::MakeReport() const {
  Report report;
  report.promised = context_.durable.promised;
  report.accepted = context_.HasRecord() ? context_.record().epoch : Epoch{};
  report.blank = context_.durable.Blank();
  report.kept_memory = context_.kept_memory;
  report.installed = context_.installed;
  report.active = context_.Active() && !context_.Fenced();
  report.wants_join = WantsJoin();
  report.leaving = context_.leaving;
  report.stop = context_.stop_wish;
  report.approves_rollback = context_.rollback_approved;
  report.draining = context_.Leader() && context_.draining;
  report.growth = context_.GrowthWish();
  report.suspected = context_.Silent();
  rounds_.FillReport(&report.fragments);
  const TrainerSeat& trainer = context_.trainer;
  if (!trainer.present) return report;
  report.parameters = trainer.parameters;
  // The run may have grown while this gateway was away; what its trainer brings may be all there
  // is.
  if (!report.active && trainer.has_parameters && trainer.fragments > report.fragments.size()) {
    FragmentReport brought;
    brought.offered = true;
    report.fragments.resize(trainer.fragments, brought);
  }
  return report;
}

}  // namespace causeway::engine
