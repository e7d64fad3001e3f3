// Orders and what arrives. Combining is in fragment_reduce.cc.
#include "daemon/exchange/fragment_exchange.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace causeway::exchange {
namespace {

// Half of the window is left to states: rounds that need one which is not here would else take the
// credit that it comes with. The fragment's part of the other half.
uint64_t AheadBytesMax(const Context& context, engine::FragmentId fragment) {
  if (context.window_bytes == 0) return std::numeric_limits<uint64_t>::max();
  uint64_t all = 0;
  for (const local::FragmentRecord& each : context.layout->fragments()) all += each.chunks;
  return context.window_bytes / 2 / all * context.layout->fragments()[fragment].chunks;
}

}  // namespace

FragmentExchange::FragmentExchange(const Context& context, engine::FragmentId fragment)
    : context_(context),
      fragment_(fragment),
      chunks_(context.layout->fragments().at(fragment).chunks),
      ahead_bytes_max_(AheadBytesMax(context, fragment)),
      routing_(chunks_),
      residual_(chunks_),
      own_(
          context, fragment, &routing_, &residual_,
          [this] { return !committing() && !replacing(); },
          [this](uint32_t index) { ReduceChunk(index); }),
      inbox_(chunks_, [this](engine::ClusterId from,
                             uint64_t bytes) { context_.port->ReturnCredit(from, bytes); }),
      committer_(context, fragment,
                 [this](const engine::Commit& action, const Reduction& reduction) {
                   OnCommitted(action, reduction);
                 }),
      tasks_(context.workers, context.loop) {}

FragmentExchange::~FragmentExchange() { context_.reserve->Close(fragment_); }

// ---------------------------------------------------------------- own contribution

void FragmentExchange::StartContribution(const engine::StartContribution& action) {
  own_.Start(action);
}

void FragmentExchange::Release(engine::OpId op) {
  const engine::Commit* commit = committer_.pending();
  own_.Release(op, commit != nullptr && commit->own_op == op);
}

void FragmentExchange::SendAgain(engine::ClusterId to, const ChunkRequest& request) {
  if (request.kind == ChunkKind::kContribution) {
    own_.SendAgain(to, request.round, request.indices, request.used_up);
    return;
  }
  const bool ours = request.kind == ChunkKind::kResult && reduction_ && !reduction_->direct() &&
                    reduction_->order().round == request.round && routing_.members().Contains(to);
  if (!ours) return;
  for (uint32_t index : request.indices) {
    if (index < chunks_ && reduction_->Combines(index) && reduction_->finished(index)) {
      SendResult(to, index, request.used_up);
    }
  }
}

// ---------------------------------------------------------------- what arrives

void FragmentExchange::OnChunk(engine::ClusterId from, const ChunkAddress& address,
                               memory::Buffer payload) {
  // No bound on rounds ahead: a member that is still fetching the state is far behind what it is
  // sent, and nobody would send it again. Credits bound the bytes.
  if (address.round <= base_ || address.epoch < epoch_ || address.index >= chunks_) {
    context_.port->ReturnCredit(from, payload.size());
    return;
  }
  const Inbox::Name name = Inbox::NameOf(from, address);
  if (!inbox_.Put(name, address.index, memory::SharedBuffer(std::move(payload)))) return;
  if (TooFarAhead(name) || (reduction_ && Spent(name, address.index))) {
    inbox_.Consume(name, address.index);
  } else {
    ReduceChunk(address.index);
  }
}

// A chunk of a round whose base is not here, and more than there is room for: it is asked for again
// when the round is reduced.
bool FragmentExchange::TooFarAhead(const Inbox::Name& name) const {
  return (expects_ || name.round > committed_ + 1) && inbox_.bytes(name.from) > ahead_bytes_max_;
}

// Whether a chunk of the round being reduced has no use there; a later attempt that has one asks
// for it again.
bool FragmentExchange::Spent(const Inbox::Name& name, uint32_t index) const {
  const engine::Reduce& order = reduction_->order();
  if (name.round != order.round || name.epoch != order.epoch) return false;
  if (name.kind == ChunkKind::kResult) {
    return name.attempt < order.attempt ||
           (name.attempt == order.attempt && reduction_->finished(index));
  }
  return reduction_->finished(index) || !reduction_->Combines(index);
}

void FragmentExchange::OnEpoch(const engine::Record& record) {
  epoch_ = record.epoch;
  inbox_.DropEpochsBelow(record.epoch);
  routing_.SetMembership(record);
  engine::ClusterSet lost;
  for (engine::ClusterId owner : last_owners_) {
    if (!record.members.Contains(owner)) lost.Insert(owner);
  }
  if (lost.Empty()) return;
  last_owners_.clear();
  for (engine::ClusterId owner : lost) {
    context_.listener->OnNote(absl::StrCat("fragment ", fragment_, ": cluster ", owner,
                                           " owned chunks and is no member any more: what encoding",
                                           " their results lost so far is lost unless it returns"));
  }
}

void FragmentExchange::OnPlanKnown() {
  own_.TryBegin();
  if (next_reduce_ && !committing()) StartReduction(*std::exchange(next_reduce_, std::nullopt));
}

void FragmentExchange::Expect(engine::RoundNumber round) {
  base_ = round;
  expects_ = true;
  inbox_.DropRounds(round);
}

void FragmentExchange::OnPeerUp(engine::ClusterId peer) {
  if (!reduction_ || reduction_->unchanged()) return;
  for (const engine::Contributor& c : reduction_->order().contributors) {
    if (c.cluster == peer) Request(peer, PartName(c), inbox_.Asked(PartName(c)), false);
  }
  if (!reduction_->direct()) {
    Request(peer, ResultName(peer), inbox_.Asked(ResultName(peer)), false);
  }
}

// ---------------------------------------------------------------- the whole result

void FragmentExchange::AnnounceIfHeld() {
  if (!reduction_ || !reduction_->held() || reduction_->announced || replacing()) return;
  reduction_->announced = true;
  engine::ResultHeld event;
  event.fragment = fragment_;
  event.round = reduction_->order().round;
  event.epoch = reduction_->order().epoch;
  event.attempt = reduction_->order().attempt;
  event.result = reduction_->Hash();
  if (context_.outer->rule(fragment_).HasOuterState()) {
    event.previous_state = context_.outer->StateHash(fragment_);
  }
  context_.listener->OnResultHeld(event);
}

void FragmentExchange::DropAttempts(const engine::DropAttempts& action) {
  if (!reduction_) return;
  const engine::Reduce& order = reduction_->order();
  const bool dead =
      order.round == action.round && order.epoch == action.epoch && order.attempt <= action.attempt;
  // What is combined stays for a retry over the same set; it is only not to be announced again.
  if (dead) reduction_->announced = true;
}

std::vector<engine::Hash64> FragmentExchange::ResultHashes(engine::RoundNumber round) const {
  if (!reduction_ || reduction_->order().round != round) return {};
  return reduction_->hashes();
}

// ---------------------------------------------------------------- commit

void FragmentExchange::Commit(const engine::Commit& action) {
  // A contribution that does not count may still be encoded; where it started from the older value,
  // that lies where the new one goes.
  const bool waits = own_.encoding() && context_.endpoint->FromOlder(fragment_);
  if (waits) committer_.Hold();
  committer_.Commit(action, reduction_);
  if (waits) AllowOnceEncoded();
}

void FragmentExchange::AllowOnceEncoded() {
  if (!own_.encoding()) return committer_.Allow();
  tasks_.After(kMemoryRetryUs, [this] { AllowOnceEncoded(); });
}

void FragmentExchange::EndReplacing() {
  committer_.EndReplacing();
  own_.TryBegin();
  AnnounceIfHeld();
}

void FragmentExchange::OnCommitted(const engine::Commit& action, const Reduction& reduction) {
  CommitReport report;
  report.record = action.record;
  report.own = action.own;
  report.own_op = action.own_op;
  report.nonfinite = reduction.nonfinite();
  KeepResiduals(reduction);
  std::optional<engine::Reduce> next = std::exchange(next_reduce_, std::nullopt);
  SetCommitted(report.record.state.round, true);
  own_.Settle(report.own, reduction.unchanged());
  own_.TryBegin();
  context_.listener->OnCommitted(report);
  if (next && !committing()) StartReduction(*next);
}

void FragmentExchange::KeepResiduals(const Reduction& reduction) {
  last_owners_.clear();
  if (reduction.unchanged()) return;
  residual_.SetTotalWeight(reduction.TotalWeight());
  if (reduction.direct()) return;
  context_.port->CancelChunks(ChunkKind::kResult, fragment_, reduction.order().round);
  engine::ClusterSet owners;
  for (uint32_t index = 0; index < chunks_; ++index) {
    if (reduction.plan().result_codec.error_feedback) owners.Insert(reduction.owner(index));
    if (reduction.Combines(index)) residual_.Set(index, reduction.chunk(index).residual);
  }
  for (engine::ClusterId owner : owners) last_owners_.push_back(owner);
}

void FragmentExchange::SetCommitted(engine::RoundNumber round, bool forward) {
  assert(!committing());
  committed_ = base_ = round;
  expects_ = false;
  inbox_.DropRounds(round);
  if (reduction_ && reduction_->order().round <= round) reduction_.reset();
  if (next_reduce_ && next_reduce_->round <= round) next_reduce_.reset();
  if (!forward) residual_.Reset();
  if (!reduction_) context_.reserve->Close(fragment_);
}

// ---------------------------------------------------------------- status

FragmentProgress FragmentExchange::Progress() const {
  FragmentProgress out;
  out.chunks_total = chunks_;
  const Contribution* own = own_.current();
  if (own != nullptr) out.chunks_encoded = own->encoded();
  if (reduction_) out.chunks_reduced = reduction_->done();
  if (committing()) {
    out.phase = "committing";
  } else if (reduction_ && reduction_->held()) {
    out.phase = "completing";
  } else if (own != nullptr && !own->complete()) {
    out.phase = "encoding";
  } else if (own != nullptr || reduction_) {
    out.phase = "exchanging";
  }
  return out;
}

uint64_t FragmentExchange::encoded_bytes(engine::OpId op) const {
  const Contribution* own = own_.current();
  return own != nullptr && own->op() == op ? own->encoded_bytes() : 0;
}

}  // namespace causeway::exchange
