// The order is that of ROUNDS.md: whose word counts, what is the best record, what is committed, is
// a rollback needed, who are the members.
#include "daemon/engine/decision.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "daemon/engine/chain.h"

namespace causeway::engine {
namespace {

class Decider {
 public:
  Decider(const Config& config, const Candidacy& candidacy)
      : config_(config), candidacy_(candidacy) {}

  Verdict Run();

 private:
  const Promised& At(ClusterId id) const { return *candidacy_.promises[id]; }
  const FragmentReport* ReportOf(ClusterId id, FragmentId fragment) const {
    const std::vector<FragmentReport>& reports = At(id).report.fragments;
    return fragment < reports.size() ? &reports[fragment] : nullptr;
  }
  Verdict NotYet(std::string reason) const;
  bool Collect();
  bool CountVoices();
  Electorate NextElectorate();
  void Grow();
  void SortKeepers();
  void DecideFragment(FragmentId fragment);
  RoundNumber HighestPossible(FragmentId fragment) const;
  bool AllKeepersComplete(FragmentId fragment, RoundNumber round, Hash256* chain) const;
  bool Offers(ClusterId id, FragmentId fragment, const Hash256& chain) const;
  bool Holds(ClusterId id, FragmentId fragment, bool after_rollback) const;
  bool RollBack();
  bool Reseed(FragmentId fragment);
  bool HeldAtAll() const;
  bool ChooseMembers();
  bool GoodMembers(ClusterSet members) const;

  const Config& config_;
  const Candidacy& candidacy_;
  ClusterSet promised_;   // Q
  ClusterSet non_blank_;  // of Q
  ClusterSet voices_;     // of Q, those that count
  const Record* best_ = nullptr;
  Electorate electorate_;  // of the best record
  bool joint_ = false;     // its old electorate still has a say
  ClusterSet keepers_;
  bool below_ = false;
  bool roll_back_ = false;
  std::string impossible_;      // what somebody reports and cannot be
  FragmentId seeded_anew_ = 0;  // fragments: from what a trainer brought, whatever they had become
  Record record_;
};

Verdict Decider::NotYet(std::string reason) const {
  Verdict verdict;
  verdict.reason = std::move(reason);
  verdict.missing = (best_ ? electorate_.voters : config_.electorate.voters) - promised_;
  if (joint_) verdict.missing = verdict.missing | (best_->old_electorate->voters - promised_);
  return verdict;
}

bool Decider::Collect() {
  for (size_t i = 0; i < candidacy_.promises.size(); ++i) {
    if (!candidacy_.promises[i]) continue;
    const ClusterId id = static_cast<ClusterId>(i);
    promised_.Insert(id);
    const Promised& promise = At(id);
    if (promise.report.blank) continue;
    non_blank_.Insert(id);
    if (promise.accepted && (!best_ || promise.accepted->epoch > best_->epoch)) {
      best_ = &*promise.accepted;
    }
  }
  if (!best_) return false;
  electorate_ = best_->electorate;
  bool seen_installed = false;
  for (ClusterId id : non_blank_) {
    const Promised& promise = At(id);
    if (promise.accepted && promise.accepted->epoch == best_->epoch && promise.report.installed &&
        promise.report.kept_memory) {
      seen_installed = true;
    }
  }
  joint_ = best_->old_electorate.has_value() && !seen_installed;
  return true;
}

// A blank disk counts only if the voters outside the non-blank ones form no quorum.
bool Decider::CountVoices() {
  voices_ = non_blank_;
  const ClusterSet blanks = promised_ - non_blank_;
  bool blanks_count = !electorate_.IsQuorum(electorate_.voters - non_blank_);
  ClusterSet electors = electorate_.voters;
  if (joint_) {
    const Electorate& old = *best_->old_electorate;
    if (old.IsQuorum(old.voters - non_blank_)) blanks_count = false;
    electors = electors | old.voters;
  }
  voices_ = voices_ | (blanks_count ? blanks : blanks - electors);
  if (config_.Planted(PlantedFault::kCommitWithoutQuorum)) return true;
  if (!electorate_.IsQuorum(voices_)) return false;
  return !joint_ || best_->old_electorate->IsQuorum(voices_);
}

// Who kept the memory of the best record, and whether some member never accepted it.
void Decider::SortKeepers() {
  for (ClusterId id : best_->members& voices_& non_blank_) {
    const Promised& promise = At(id);
    if (!promise.accepted || promise.accepted->epoch < best_->epoch) {
      below_ = true;
    } else if (promise.report.kept_memory || config_.Planted(PlantedFault::kAmnesiacSurvives)) {
      keepers_.Insert(id);
    }
  }
}

// Commit iff all keepers sent COMPLETE for the highest attempt that any of them reports.
bool Decider::AllKeepersComplete(FragmentId fragment, RoundNumber round, Hash256* chain) const {
  bool any = false;
  Attempt highest = 0;
  auto completed = [&](const FragmentReport& report) {
    return report.complete && report.complete_epoch == best_->epoch &&
           report.complete_round == round;
  };
  for (ClusterId id : keepers_) {
    const FragmentReport* report = ReportOf(id, fragment);
    if (!report) continue;
    if (completed(*report)) {
      highest = std::max(highest, report->complete_attempt);
      any = true;
    }
    const bool at_base = report->holds && report->committed.lineage == best_->lineage &&
                         report->committed.round == round - 1;
    if (at_base && report->attempt_seen) {
      highest = std::max(highest, report->attempt);
      any = true;
    }
  }
  if (!any) return false;
  bool all = true;
  bool one = false;
  for (ClusterId id : keepers_) {
    const FragmentReport* report = ReportOf(id, fragment);
    if (report && completed(*report) && report->complete_attempt == highest) {
      *chain = report->complete_chain;
      one = true;
    } else {
      all = false;
    }
  }
  return all && one;
}

// The seeded value is still with the trainer that brought it.
bool Decider::Offers(ClusterId id, FragmentId fragment, const Hash256& chain) const {
  const FragmentReport* report = ReportOf(id, fragment);
  return report && report->offered &&
         SeedChain(config_, At(id).report.parameters, fragment) == chain;
}

bool Decider::Holds(ClusterId id, FragmentId fragment, bool after_rollback) const {
  const Hash256& chain = record_.base[fragment].chain;
  if (record_.base[fragment].round == 0 && Offers(id, fragment, chain)) return true;
  const FragmentReport* report = ReportOf(id, fragment);
  if (!report || !report->holds) return false;
  if (report->committed.chain == chain) return true;
  return report->complete && report->complete_chain == chain && !after_rollback &&
         report->committed.lineage == record_.lineage;
}

// A commit takes the COMPLETE of every member, so nobody is more than one round above a keeper.
RoundNumber Decider::HighestPossible(FragmentId fragment) const {
  const RoundNumber base = best_->base[fragment].round;
  RoundNumber highest = kRoundMax;
  for (ClusterId id : keepers_) {
    const FragmentReport* report = ReportOf(id, fragment);
    const bool above = report && report->holds && report->committed.lineage == best_->lineage &&
                       report->committed.round >= base;
    highest = std::min(highest, above ? report->committed.round + 1 : base);
  }
  return highest;
}

void Decider::DecideFragment(FragmentId fragment) {
  FragmentBase base = best_->base[fragment];
  const RoundNumber highest = HighestPossible(fragment);
  for (ClusterId id : promised_) {
    const FragmentReport* report = ReportOf(id, fragment);
    if (!report || !report->holds || report->committed.lineage != best_->lineage) continue;
    if (report->committed.round > highest) {
      impossible_ = "cluster " + std::to_string(int{id}) + " reports round " +
                    std::to_string(report->committed.round) + " of fragment " +
                    std::to_string(fragment) + ", which others cannot have completed";
    }
    if (report->committed.round > base.round) {
      base = {report->committed.round, report->committed.chain};
    }
  }
  if (!keepers_.Empty()) {
    Hash256 chain{};
    if (!below_ && AllKeepersComplete(fragment, base.round + 1, &chain)) {
      base = {base.round + 1, chain};
    }
  } else if (!below_) {
    roll_back_ = true;  // whoever knew what was committed in that epoch has forgotten it
  }
  record_.base[fragment] = base;
  bool held = false;
  for (ClusterId id : voices_) held = held || Holds(id, fragment, false);
  if (!held) roll_back_ = true;
}

// A value that nobody holds and nobody committed upon: the seeded one, if a trainer still has it.
// With every voter's promise it is known that nothing was committed, and the seed may seed anew; so
// it may, or another where it is away, what a run had just grown by when its values were lost.
bool Decider::Reseed(FragmentId fragment) {
  if (best_->base[fragment].round != 0) return false;
  for (ClusterId id : voices_) {
    if (!Offers(id, fragment, best_->base[fragment].chain)) continue;
    record_.base[fragment] = best_->base[fragment];
    return true;
  }
  const bool grown = HeldAtAll();
  if (!promised_.ContainsAll(electorate_.voters) && !grown) return false;
  std::optional<ClusterId> seed;
  for (ClusterId id : voices_) {
    const FragmentReport* report = ReportOf(id, fragment);
    const bool may = id == config_.seed_cluster || (grown && !seed);
    if (may && report && report->offered) seed = id;
  }
  if (!seed) return false;
  record_.base[fragment] = {0, SeedChain(config_, At(*seed).report.parameters, fragment)};
  ++seeded_anew_;
  return true;
}

// Some fragment's value is here, whatever became of others.
bool Decider::HeldAtAll() const {
  for (ClusterId id : voices_) {
    for (const FragmentReport& report : At(id).report.fragments) {
      if (report.holds) return true;
    }
  }
  return false;
}

// The newest committed value of each fragment becomes the base of a new lineage.
bool Decider::RollBack() {
  record_.lineage = best_->lineage + 1;
  record_.rolled_back = true;
  for (FragmentId fragment = 0; fragment < record_.base.size(); ++fragment) {
    const FragmentReport* newest = nullptr;
    for (ClusterId id : voices_) {
      const FragmentReport* report = ReportOf(id, fragment);
      if (!report || !report->holds) continue;
      if (!newest || std::tie(newest->committed.lineage, newest->committed.round) <
                         std::tie(report->committed.lineage, report->committed.round)) {
        newest = report;
      }
    }
    if (newest) {
      record_.base[fragment] = {newest->committed.round, newest->committed.chain};
    } else if (!Reseed(fragment)) {
      return false;
    }
  }
  record_.lineage_base = record_.base;
  return true;
}

bool Decider::GoodMembers(ClusterSet members) const {
  if (config_.Planted(PlantedFault::kCommitWithoutQuorum)) return true;
  if (!record_.electorate.IsQuorum(members) || !electorate_.IsQuorum(members)) return false;
  return !record_.old_electorate || record_.old_electorate->IsQuorum(members);
}

// Those who hold every base, if they are enough; else all whose voice counts and who belong.
bool Decider::ChooseMembers() {
  ClusterSet belong;
  for (ClusterId id : voices_) {
    const bool voter = record_.electorate.voters.Contains(id) ||
                       (record_.old_electorate && record_.old_electorate->voters.Contains(id));
    if (voter || best_->members.Contains(id) || At(id).report.wants_join) belong.Insert(id);
  }
  belong = belong - candidacy_.dropped;
  belong.Insert(candidacy_.self);
  ClusterSet holders;
  for (ClusterId id : belong) {
    bool holds = true;
    for (FragmentId fragment = 0; fragment < record_.base.size(); ++fragment) {
      holds = holds && Holds(id, fragment, record_.rolled_back);
    }
    if (holds) holders.Insert(id);
  }
  holders.Insert(candidacy_.self);
  if (GoodMembers(holders)) {
    record_.members = holders;
  } else if (GoodMembers(belong)) {
    record_.members = belong;
  } else if (GoodMembers(voices_)) {
    record_.members = voices_;
  } else {
    return false;
  }
  for (FragmentId fragment = 0; fragment < record_.base.size(); ++fragment) {
    bool held = false;
    std::optional<ClusterId> holder;
    for (ClusterId id : voices_) {
      if (!Holds(id, fragment, record_.rolled_back)) continue;
      holder = id;
      held = held || record_.members.Contains(id);
    }
    if (!held && holder) record_.members.Insert(*holder);
  }
  return true;
}

Electorate Decider::NextElectorate() {
  // Two changes at once: the first one is finished first.
  if (joint_ || !candidacy_.wish) return electorate_;
  return *candidacy_.wish;
}

// The new fragments begin as those of a run that is founded: with the values that one member's
// trainer brought.
void Decider::Grow() {
  const std::optional<Growth>& wish = At(candidacy_.self).report.growth;
  if (!wish || wish->from != best_->schema) return;
  for (ClusterId id : record_.members) {
    const std::optional<Growth>& theirs = At(id).report.growth;
    if (!theirs || theirs->from != wish->from || !(theirs->schema == wish->schema)) return;
  }
  const ClusterId seed = record_.members.Contains(config_.seed_cluster) ? config_.seed_cluster
                                                                        : *record_.members.begin();
  const Hash256& parameters = At(seed).report.growth->parameters;
  record_.schema = wish->schema.digest;
  for (auto id = static_cast<FragmentId>(record_.base.size()); id < wish->schema.fragments; ++id) {
    record_.base.push_back({0, SeedChain(config_, parameters, id)});
    record_.lineage_base.push_back(record_.base.back());
  }
}

Verdict Decider::Run() {
  if (!Collect()) return NotYet("nobody with a record has promised");
  if (!CountVoices()) return NotYet("no quorum of voters has promised");
  record_ = *best_;
  record_.epoch = candidacy_.epoch;
  record_.leader = candidacy_.self;
  record_.rolled_back = false;
  record_.stopped = candidacy_.stop.value_or(best_->stopped);
  record_.electorate = NextElectorate();
  if (!joint_) {
    record_.old_electorate.reset();
    if (!(record_.electorate == electorate_)) record_.old_electorate = electorate_;
  }
  if (!record_.electorate.IsQuorum(voices_) &&
      !config_.Planted(PlantedFault::kCommitWithoutQuorum)) {
    return NotYet("no quorum of the new voters has promised");
  }
  if (!record_.electorate.voters.Contains(candidacy_.self) &&
      !best_->members.Contains(candidacy_.self)) {
    return NotYet("this cluster has no say in the run");
  }
  SortKeepers();
  for (FragmentId fragment = 0; fragment < record_.base.size(); ++fragment) {
    DecideFragment(fragment);
  }
  if (!impossible_.empty()) return NotYet(impossible_);
  if (roll_back_) {
    if (!candidacy_.may_roll_back) {
      Verdict verdict = NotYet("the run can only go on by undoing commits");
      verdict.kind = Verdict::Kind::kNeedsRollback;
      // A member without a vote may have kept what all voters have forgotten.
      verdict.missing = verdict.missing | (best_->members - promised_);
      Decider rolled_back(*this);
      verdict.restorable = rolled_back.RollBack() && rolled_back.seeded_anew_ < record_.base.size();
      return verdict;
    }
    // A record's lineage lies below its counter. Several candidates may have had the same number.
    if (best_->lineage + 1 >= candidacy_.epoch.counter) {
      return NotYet("a rollback needs an epoch with a higher number");
    }
    if (!RollBack()) return NotYet("nobody who has promised holds every fragment");
  }
  if (!ChooseMembers()) return NotYet("no quorum of members");
  record_.incarnations.assign(candidacy_.promises.size(), 0);
  for (ClusterId id : record_.members) record_.incarnations[id] = At(id).incarnation;
  if (candidacy_.grow && !roll_back_) Grow();
  Verdict verdict;
  verdict.kind = Verdict::Kind::kRecord;
  verdict.record = std::move(record_);
  return verdict;
}

}  // namespace

Verdict Decide(const Config& config, const Candidacy& candidacy) {
  return Decider(config, candidacy).Run();
}

}  // namespace causeway::engine
