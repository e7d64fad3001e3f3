// The end of a random run: faults stop, and the run has to become whole and make progress, unless
// what was lost cannot by design be made good.
#include "tests/sim/world.h"

namespace causeway::sim {
namespace {

constexpr engine::RoundNumber kProgressRounds = 3;
constexpr Time kPatience = 6000 * kTick;
constexpr Time kProbePeriod = 50 * kTick;

}  // namespace

// Whether the clusters in `up` can form every quorum that may be asked of them: a blank disk
// counts only if those that are not blank could not be outvoted without it.
bool World::Recoverable(engine::ClusterSet up) const {
  engine::ClusterSet remember;
  engine::ClusterSet held_somewhere;
  const engine::Record* newest = nullptr;
  for (const auto& gateway : nodes_) {
    const engine::Durable& durable = gateway->disk().durable;
    const ClusterId id = static_cast<ClusterId>(gateway->id());
    if (durable.accepted && (!newest || durable.accepted->epoch > newest->epoch)) {
      newest = &*durable.accepted;
    }
    if (!durable.Blank() && up.Contains(id)) remember.Insert(id);
  }
  const std::vector<engine::Record>& installed = oracle_.records();
  if (!newest && installed.empty()) {
    // Never founded: every voter is needed.
    return up.ContainsAll(engine::ClusterSet::FirstOf(clusters_));
  }
  bool known = false;  // somebody in `up` knows that the run exists
  for (const auto& gateway : nodes_) {
    known = known || (up.Contains(static_cast<ClusterId>(gateway->id())) &&
                      gateway->disk().durable.accepted.has_value());
  }
  if (!known) return false;
  auto enough = [&](const engine::Electorate& electorate) {
    if (!electorate.IsQuorum(up)) return false;
    if (electorate.IsQuorum(remember)) return true;
    return !electorate.IsQuorum(electorate.voters - remember) && !remember.Empty();
  };
  auto fits = [&](const engine::Record& record) {
    if (!enough(record.electorate)) return false;
    return !record.old_electorate || enough(*record.old_electorate);
  };
  if (newest && !fits(*newest)) return false;
  for (const engine::Record& record : installed) {
    const bool last = record.epoch >= installed.back().epoch;
    if (last && !fits(record)) return false;
  }
  for (const auto& gateway : nodes_) {
    const std::optional<engine::Record>& record = gateway->disk().durable.accepted;
    if (record && (installed.empty() || record->epoch >= installed.back().epoch) &&
        !fits(*record)) {
      return false;
    }
  }
  const size_t fragments =
      newest ? newest->base.size() : static_cast<size_t>(fragments_ - options_.grows_by);
  bool any = false;  // some value is kept
  for (ClusterId id : up) {
    for (size_t f = 0; f < fragments; ++f) any = any || node(id).Keeps(static_cast<FragmentId>(f));
  }
  for (FragmentId fragment = 0; fragment < static_cast<FragmentId>(fragments); ++fragment) {
    bool kept = false;
    for (ClusterId id : up) kept = kept || node(id).Keeps(fragment);
    if (!kept && !(newest && Seeded(*newest, fragment, up, any))) return false;
  }
  return true;
}

// A value that nobody keeps and nothing was committed upon comes from a trainer again: from one
// that brings that very value; what a run had just grown by, from any, as long as some value is
// kept; else from the seed's once all voters are there, who then know that nothing was committed.
bool World::Seeded(const engine::Record& record, FragmentId fragment, engine::ClusterSet up,
                   bool any_kept) const {
  if (record.base[fragment].round != 0) return false;
  for (ClusterId id : up) {
    if (node(id).SeedOf(fragment) == record.base[fragment].chain) return true;
  }
  const bool grown = static_cast<int>(fragment) >= fragments_ - options_.grows_by;
  return (grown && any_kept) || (up.Contains(0) && up.ContainsAll(record.electorate.voters));
}

bool World::HeldByAnyone() const {
  for (FragmentId fragment = 0; fragment < static_cast<FragmentId>(fragments_); ++fragment) {
    bool held = false;
    for (const auto& gateway : nodes_) held = held || (gateway->up() && gateway->holds(fragment));
    if (!held) return false;
  }
  return true;
}

void World::Peace() {
  peace_ = true;
  peace_at_ = now_;
  Say("==== PEACE");
  network_.Heal();
  network_.loss = 0;
  network_.duplication = 0;
  network_.delay_max = 4 * kTick;
  const engine::ClusterSet all = engine::ClusterSet::FirstOf(clusters_);
  engine::ClusterSet up = all;
  if (random_.Chance(0.4)) {
    up = engine::ClusterSet(random_.Next() & all.bits());
    if (!Recoverable(up)) up = all;
  }
  stays_down_ = all - up;
  if (!Recoverable(up)) {
    outcome_.blocked = true;
    return;
  }
  for (ClusterId id : stays_down_) {
    if (node(id).up()) CrashNode(id, false);
  }
  for (int id : up) {
    if (node(id).frozen) Thaw(id);
    RestartNode(id);
    // Whoever founds a run brings its parameters again if they were lost before anybody had them.
    if ((id == 0 || id == 2 || options_.grows_by > 0) && !HeldByAnyone()) KillTrainer(id);
    if (!node(id).trainer().alive) StartTrainer(id);
  }
  GrowTrainers();
}

void World::GrowTrainers() {
  if (options_.grows_by == 0) return;
  for (int id = 0; id < clusters_; ++id) {
    if (node(id).up()) GrowTrainer(id);
  }
}

// An operator sees that the run stands still. A wish to stop it may still have been under way.
void World::LetGoOn() {
  for (int id = 0; id < clusters_; ++id) {
    if (!node(id).up() || StatusOf(id).phase != engine::Phase::kHalted) continue;
    Tell(id, engine::StopRequested{false});
    return;
  }
}

// All voters that are up are members of one active epoch and every member made some rounds since.
bool World::Whole() {
  std::optional<engine::Record> newest;
  for (int id = 0; id < clusters_; ++id) {
    if (!node(id).up()) continue;
    const engine::Status status = StatusOf(id);
    if (status.phase == engine::Phase::kActive &&
        (!newest || status.record->epoch > newest->epoch)) {
      newest = status.record;
    }
  }
  if (!newest) return false;
  for (int id = 0; id < clusters_; ++id) {
    const ClusterId cluster = static_cast<ClusterId>(id);
    const bool voter = newest->electorate.voters.Contains(cluster);
    if (voter && node(id).up() && !newest->members.Contains(cluster)) return false;
    if (newest->members.Contains(cluster) && !node(id).up()) return false;
  }
  std::vector<engine::RoundNumber> rounds(static_cast<size_t>(fragments_), INT64_MAX);
  for (ClusterId member : newest->members) {
    const engine::Status status = StatusOf(member);
    if (status.phase != engine::Phase::kActive || status.record->epoch != newest->epoch)
      return false;
    if (status.fragments.size() != rounds.size()) return false;  // it has not grown yet
    for (size_t id = 0; id < rounds.size(); ++id) {
      const engine::FragmentStatus& fragment = status.fragments[id];
      if (!fragment.holds || fragment.committed.lineage != newest->lineage) return false;
      rounds[id] = std::min(rounds[id], fragment.committed.round);
    }
  }
  if (!whole_epoch_ || *whole_epoch_ != newest->epoch) {
    whole_epoch_ = newest->epoch;
    whole_rounds_ = rounds;
    return false;
  }
  for (size_t id = 0; id < rounds.size(); ++id) {
    if (rounds[id] < whole_rounds_[id] + kProgressRounds) return false;
  }
  return true;
}

std::string World::WhyNotWhole() {
  std::string out;
  for (int id = 0; id < clusters_; ++id) {
    out += std::string(" ") + static_cast<char>('A' + id) + ":";
    if (!node(id).up()) {
      out += "down";
      continue;
    }
    const engine::Status status = StatusOf(id);
    out += engine::PhaseName(status.phase);
    if (status.record) {
      out += " E" + engine::ToString(status.record->epoch) + " M" +
             engine::ToString(status.record->members) + " V" +
             engine::ToString(status.record->electorate.voters);
    }
    out += " promised " + engine::ToString(status.promised) + (status.frozen ? " frozen" : "");
    for (const engine::FragmentStatus& fragment : status.fragments) {
      out += fragment.holds ? " " + engine::ToString(fragment.committed) : " -";
    }
    out += " awaits " + engine::ToString(status.awaited) + ";";
  }
  return out;
}

Outcome World::Run() {
  try {
    const Time quiet = 60 * kTick;
    Schedule(quiet, 0, FaultDue{});
    Pass(static_cast<Time>(300 + random_.Below(700)) * kTick);
    Peace();
    while (!outcome_.blocked) {
      Pass(kProbePeriod);
      LetGoOn();
      GrowTrainers();
      if (Whole()) break;
      if (now_ - peace_at_ <= kPatience) continue;
      // A change of voters that was under way may ask for a cluster that stays down.
      if (Recoverable(engine::ClusterSet::FirstOf(clusters_) - stays_down_)) {
        throw Violation("LIVENESS:" + WhyNotWhole());
      }
      outcome_.blocked = true;
    }
    outcome_.recovery = now_ - peace_at_;
  } catch (const Violation& violation) {
    outcome_.violation = violation.what();
    Say(std::string("VIOLATION ") + violation.what());
  }
  outcome_.counts = oracle_.counts();
  return outcome_;
}

}  // namespace causeway::sim
