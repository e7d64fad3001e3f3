// How a trainer's ranks offer their slices and first values, and the word to begin.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/digest/digest.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

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
  return digest::Sha256({kText, sizeof(kText) - 1});
}

}  // namespace

void Run::OnOffer(trainers::Session& session, const trainers::OfferRequest& request,
                  std::vector<local::SliceRecord> slices) {
  LocalRank& rank = trainer_->ranks.at(session.rank());
  if (trainer_->announced) {  // a resumed session that has not seen the answer
    rank.ready = false;
    MaybeReady();
    return;
  }
  if (rank.offered) return;  // likewise; it is looked at
  if (slices.empty() && trainer_->world == 1) {
    for (uint32_t f = 0; f < layout_->fragments().size(); ++f) {
      slices.push_back({0, layout_->fragments()[f].elements, f, 0});
    }
  }
  if (absl::Status status = CheckSlices(session.rank(), slices); !status.ok()) {
    session.SendError(request.sequence,
                      Refusal(local::Code::kSchema, std::string(status.message())));
    return;
  }
  rank.offered = true;
  if (!trainer_->All([](const LocalRank& each) { return each.offered; })) return;
  if (WholeSlices()) LookAtOffer();
}

absl::Status Run::CheckSlices(uint32_t rank, const std::vector<local::SliceRecord>& slices) {
  if (trainer_->slices.empty()) {
    for (uint32_t f = 0; f < layout_->fragments().size(); ++f) {
      trainer_->slices.emplace_back(*layout_, f);
    }
  }
  for (const local::SliceRecord& slice : slices) {
    absl::Status added =
        trainer_->slices[slice.fragment].Add(slice.first_element, slice.element_count, rank);
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

// Every element of every tensor is some rank's; else all of them are told which is not.
bool Run::WholeSlices() {
  for (uint32_t f = 0; f < trainer_->slices.size(); ++f) {
    const std::optional<uint64_t> missing = trainer_->slices[f].FirstMissing();
    if (!missing) continue;
    const uint32_t tensor = *layout_->TensorAt(f, *missing);
    trainers::Problem problem = Refusal(
        local::Code::kSchema,
        absl::StrCat("no rank of this cluster provides element ",
                     *missing - layout_->placements()[tensor].first_element, " of tensor '",
                     schema_->tensors()[tensor].name, "'"));
    problem.tensor = schema_->tensors()[tensor].name;
    RefuseAll(problem);
    return false;
  }
  trainer_->slices.clear();
  return true;
}

void Run::LookAtOffer() {
  if (!HasOuterRule(config_)) {
    AnnounceTrainer(NoParameters());
    return;
  }
  struct Found {
    engine::Hash256 digest;
    std::optional<std::string> nonfinite;
  };
  auto found = std::make_shared<Found>();  // shared by the two halves
  around_.workers->Submit([this, endpoint = endpoint_, found, id = trainer_->session,
                           before = FragmentsBefore(), loop = around_.loop,
                           alive = std::weak_ptr<bool>(alive_)] {
    for (uint32_t f = 0; f < endpoint->layout().fragments().size() && !found->nonfinite; ++f) {
      found->nonfinite = endpoint->NonFiniteInSnapshot(f);
    }
    found->digest = endpoint->SnapshotDigest(before);
    loop->Post([this, alive, found, id] {
      if (alive.expired() || !trainer_ || trainer_->session != id) return;
      if (!found->nonfinite) {
        AnnounceTrainer(found->digest);
        return;
      }
      trainers::Problem problem =
          Refusal(local::Code::kNonfinite,
                  absl::StrCat("tensor '", *found->nonfinite,
                               "' holds NaN or Inf: the run cannot begin from it"));
      problem.tensor = *found->nonfinite;
      RefuseAll(problem);
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
  joined.extends = Extended();
  joined.has_parameters = true;
  joined.parameters = parameters;
  Drive(joined);
}

// The trainer may begin once this gateway is a member and every fragment's value is here, as new as
// the membership says.
void Run::MaybeReady() {
  if (!trainer_ || !trainer_->announced || trainer_->Ready() || checking_ready_ || !exchange_) return;
  if (std::find(adopted_.begin(), adopted_.end(), false) != adopted_.end()) return;
  if (Committing()) return;
  const engine::Status status = engine_->Snapshot();
  if (status.phase != engine::Phase::kActive && status.phase != engine::Phase::kHalted) return;
  if (status.record->schema != schema_->digest()) return;  // the run has not grown yet
  const std::vector<int64_t> rounds = CommittedRounds();
  // A new epoch may have committed a round with what this cluster sent before its gateway
  // restarted. Only who holds the epoch's base can say what became of an operation; "unknown" would
  // have it submitted, and counted, a second time.
  const std::vector<engine::FragmentBase>& base = status.record->base;
  for (engine::FragmentId f = 0; f < std::min(rounds.size(), base.size()); ++f) {
    if (rounds[f] < base[f].round) return;
    // After a rollback the value here takes its new name first: work on the old one would be in its
    // way, and it in the work's.
    if (exchange_->state(f).committed().lineage != status.record->lineage) return;
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
      AllowValues(hold);
      if (trainer_ && trainer_->session == id && !Committing() && CommittedRounds() == rounds) {
        SendReady(*matches, rounds);
      } else {
        MaybeReady();  // a round was committed meanwhile, or another trainer waits
      }
    });
  });
}

void Run::SendReady(bool matches, const std::vector<int64_t>& rounds) {
  const bool fresh = std::all_of(rounds.begin(), rounds.end(), [](int64_t r) { return r == 0; });
  const bool refuses =
      trainer_->init == local::Init::kMatch || (trainer_->init == local::Init::kMine && !fresh);
  if (!matches && refuses) {
    RefuseAll(Refusal(local::Code::kInit, absl::StrCat("run '", name(),
                                                       "' holds other values than the trainer's, "
                                                       "and init forbids taking them")));
    return;
  }
  const engine::Status status = engine_->Snapshot();
  const uint32_t members =
      status.record ? static_cast<uint32_t>(status.record->members.Count()) : 1;
  const bool begins = !trainer_->Ready();
  ForEachRank([&](trainers::Session& session, uint32_t, LocalRank& rank) {
    if (std::exchange(rank.ready, true)) return;
    session.SendReady(0, matches ? local::Start::kMatch : local::Start::kReplace, members, rounds);
  });
  for (engine::FragmentId f = 0; begins && f < exchange_->size(); ++f) {
    StandsOn(f, exchange_->state(f).committed());
    Drive(engine::TrainerApplied{f, rounds[f]});
  }
}

}  // namespace causeway::run
