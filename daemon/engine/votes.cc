// A flat list: it holds a handful of entries for one open round of a fragment.
#include "daemon/engine/votes.h"

#include <algorithm>
#include <tuple>

namespace causeway::engine {
namespace {

auto Order(const Vote& vote) {
  return std::make_tuple(vote.lineage, vote.epoch.counter, vote.epoch.candidate, vote.round,
                         vote.attempt);
}

}  // namespace

void VoteBox::Add(const Vote& vote) {
  int kept = 0;
  Vote* oldest = nullptr;
  for (Vote& have : votes_) {
    if (have.from != vote.from) continue;
    if (Order(have) == Order(vote)) {
      have = vote;
      return;
    }
    ++kept;
    if (!oldest || Order(have) < Order(*oldest)) oldest = &have;
  }
  if (kept < kVotesKeptPerCluster) {
    votes_.push_back(vote);
  } else if (Order(*oldest) < Order(vote)) {
    *oldest = vote;
  }
}

const Vote* VoteBox::Find(ClusterId from, const Epoch& epoch, Lineage lineage, RoundNumber round,
                          Attempt attempt) const {
  for (const Vote& vote : votes_) {
    if (vote.from == from && vote.round == round && vote.attempt == attempt &&
        vote.epoch == epoch && vote.lineage == lineage) {
      return &vote;
    }
  }
  return nullptr;
}

void VoteBox::Forget(Lineage lineage, RoundNumber round) {
  votes_.erase(std::remove_if(votes_.begin(), votes_.end(),
                              [&](const Vote& vote) {
                                return vote.lineage < lineage ||
                                       (vote.lineage == lineage && vote.round <= round);
                              }),
               votes_.end());
}

}  // namespace causeway::engine
