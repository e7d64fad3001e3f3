// States are encoded as fp32 chunks like any contribution, so one checksummed format serves both.
#include "daemon/exchange/state_transfer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/digest/digest.h"

namespace causeway::exchange {
namespace {

const compression::CodecSpec kStateCodec{};  // fp32

void Decode(const memory::SharedBuffer& payload, absl::Span<float> out) {
  compression::DecodeChunk({reinterpret_cast<const uint8_t*>(payload.data()), payload.size()},
                           out.data());
}

}  // namespace

StateTransfer::StateTransfer(const Context& context, engine::FragmentId fragment,
                             FragmentExchange* rounds)
    : context_(context),
      fragment_(fragment),
      chunks_(context.layout->fragments().at(fragment).chunks),
      rounds_(rounds),
      tasks_(context.workers, context.loop) {}

uint32_t StateTransfer::Pieces() const {
  return context_.outer->rule(fragment_).UsesMomentum() ? 2 * chunks_ : chunks_;
}

void StateTransfer::SetCommitted(const engine::StateId& state) {
  committed_ = state;
  // What is being fetched is overtaken.
  const bool stale = staged_ && std::tie(staged_->state.lineage, staged_->state.round) <=
                                    std::tie(state.lineage, state.round);
  if (stale) staged_.reset();
}

// ---------------------------------------------------------------- joiner

StateTransfer::Staged::Staged(const engine::FetchState& fetch, uint32_t pieces)
    : state(fetch.state), donors(fetch.donors), chunks(pieces), shares(pieces) {
  begun_us = came_us = loop::Now();
}

void StateTransfer::Fetch(const engine::FetchState& action) {
  if (!staged_ || !(staged_->state == action.state) || staged_->verifying) {
    Stage(action);
    return;
  }
  // Named again: whoever has not answered was away, and what it was asked for is lost.
  staged_->donors = action.donors;
  staged_->donors.Erase(context_.self);
  staged_->away = {};
  for (engine::ClusterId donor = 0; donor < engine::kClustersMax; ++donor) {
    const bool serves = action.donors.Contains(donor) && staged_->answers.contains(donor);
    if (!serves) staged_->shares.TakeBack(donor);
  }
  AskDonors();
}

void StateTransfer::Stage(const engine::FetchState& action) {
  staged_ = std::make_shared<Staged>(action, Pieces());
  staged_->donors.Erase(context_.self);
  AskDonors();
}

// For what nobody was asked for yet.
void StateTransfer::AskDonors() {
  engine::ClusterSet here = staged_->donors - staged_->away;
  if (staged_->donors.Empty() || (here.Empty() && staged_->passed)) {
    const engine::StateFailed failed{fragment_, staged_->state};
    staged_.reset();
    context_.listener->OnStateFailed(failed);
    return;
  }
  if (here.Empty()) return;  // until one has a link again, or others are named
  if (staged_->alone) here = engine::ClusterSet(uint64_t{1} << *here.begin());
  for (const auto& [donor, wanted] : staged_->shares.Share(here)) {
    context_.port->RequestState(donor, fragment_, staged_->state, wanted);
  }
  WatchDonors();
}

// It does not hold the state any more, or sent what is not a state.
void StateTransfer::Drop(engine::ClusterId donor) {
  staged_->donors.Erase(donor);
  staged_->passed = true;
  staged_->shares.TakeBack(donor);
  AskDonors();
}

// Who has not sent anything for a while is asked for nothing more while others are there.
void StateTransfer::WatchDonors() {
  if (std::exchange(watching_donors_, true)) return;
  staged_->heard = {};
  tasks_.After(context_.serve_patience_us, [this, watched = std::weak_ptr(staged_)] {
    watching_donors_ = false;
    if (!fetching() || staged_->verifying) return;
    if (staged_ == watched.lock()) {
      for (engine::ClusterId donor : staged_->donors - staged_->away - staged_->heard) {
        const engine::ClusterSet here = staged_->donors - staged_->away;
        if (here.Count() < 2 || !staged_->shares.Awaits(donor)) continue;
        staged_->away.Insert(donor);
        staged_->passed = true;
        staged_->shares.TakeBack(donor);
      }
    }
    AskDonors();
  });
}

void StateTransfer::OnOffer(engine::ClusterId from, const engine::StateId& state,
                            const DonorAnswer& answer) {
  const bool asked =
      staged_ && !staged_->verifying && staged_->donors.Contains(from) && state == staged_->state;
  if (!asked) return;
  if (!answer.found) {
    Drop(from);
    return;
  }
  staged_->heard.Insert(from);
  staged_->answers[from] = answer;
  if (staged_->shares.Complete()) Verify();
}

void StateTransfer::OnChunk(engine::ClusterId from, const ChunkAddress& address,
                            memory::Buffer payload) {
  context_.port->ReturnCredit(from, payload.size());  // staged memory is the pool's own concern
  const bool wanted = staged_ && !staged_->verifying && staged_->donors.Contains(from) &&
                      address.round == staged_->state.round &&
                      address.lineage == staged_->state.lineage &&
                      address.index < staged_->chunks.size() && !staged_->shares.Has(address.index);
  if (!wanted) return;
  const absl::Status good = compression::CheckChunk(
      kStateCodec, context_.layout->ChunkElements(fragment_, address.index % chunks_),
      {reinterpret_cast<const uint8_t*>(payload.data()), payload.size()});
  if (!good.ok()) {
    context_.listener->OnBadChunk(from, address, good);
    Drop(from);
    return;
  }
  staged_->chunks[address.index] = memory::SharedBuffer(std::move(payload));
  staged_->shares.Came(address.index);
  staged_->sources.Insert(from);
  staged_->heard.Insert(from);
  staged_->came_us = loop::Now();
  if (staged_->shares.Complete() && !staged_->answers.empty()) Verify();
}

std::optional<FetchProgress> StateTransfer::Progress() const {
  if (!fetching()) return std::nullopt;
  FetchProgress out;
  for (uint32_t piece = 0; piece < staged_->chunks.size(); ++piece) {
    const uint32_t n = context_.layout->ChunkElements(fragment_, piece % chunks_);
    const uint64_t size = compression::EncodedSizeMax(kStateCodec, n);
    out.bytes_total += size;
    if (staged_->chunks[piece].data() != nullptr) out.bytes += size;
  }
  const int64_t now = loop::Now();
  const double elapsed_s = 1e-6 * static_cast<double>(now - staged_->begun_us);
  if (elapsed_s > 0) out.bytes_per_s = static_cast<double>(out.bytes) / elapsed_s;
  out.silent_s = 1e-6 * static_cast<double>(now - staged_->came_us);
  out.donors = staged_->donors - staged_->away;
  return out;
}

// Adopts nothing yet: decodes and hashes aside, as the state would be.
void StateTransfer::Verify() {
  staged_->verifying = true;
  const DonorAnswer& first = staged_->answers.begin()->second;
  for (const auto& [donor, answer] : staged_->answers) {
    if (answer.hash == first.hash && answer.words == first.words) continue;
    Distrust();
    return;
  }
  auto hash = std::make_shared<engine::Hash256>();  // shared by the two halves
  tasks_.Run(
      [context = context_, staged = staged_, fragment = fragment_, chunks = chunks_, hash] {
        std::vector<engine::Hash64> hashes;
        std::vector<float> values(compression::kChunkElements);
        std::vector<float> momentum(staged->chunks.size() > chunks ? values.size() : 0);
        for (uint32_t index = 0; index < chunks; ++index) {
          const uint32_t n = context.layout->ChunkElements(fragment, index);
          Decode(staged->chunks[index], {values.data(), n});
          if (!momentum.empty()) Decode(staged->chunks[chunks + index], {momentum.data(), n});
          hashes.push_back(
              outer::ChunkHash({values.data(), n}, {momentum.data(), momentum.empty() ? 0 : n}));
        }
        const std::vector<engine::Hash64>& words = staged->answers.begin()->second.words;
        hashes.insert(hashes.end(), words.begin(), words.end());
        *hash = digest::HashOfHashes(hashes);
      },
      [this, staged = staged_, hash] {
        if (staged_ != staged) return;
        // Words that no history can have are a donor's fault as a wrong hash is; the present
        // value stays until the state is adopted, and so do its words.
        const DonorAnswer& told = staged->answers.begin()->second;
        if (*hash == told.hash &&
            outer::CheckWords(context_.outer->rule(fragment_), told.words).ok()) {
          staged->verified = true;
          context_.listener->OnStateHeld({fragment_, staged->state});
          return;
        }
        Distrust();
      });
}

// What came is not the state that was named. Of one donor it is known who is at fault.
void StateTransfer::Distrust() {
  engine::FetchState again{fragment_, staged_->state, staged_->donors};
  const bool known = staged_->alone || staged_->sources.Count() == 1;
  if (known) again.donors.Erase(*staged_->sources.begin());
  context_.listener->OnNote(absl::StrCat("the outer state of fragment ", fragment_,
                                         known ? " that a donor sent does not match the hash it "
                                                 "named; another donor is asked"
                                               : " that several donors sent parts of does not "
                                                 "match the hash; one alone is asked"));
  staged_ = std::make_shared<Staged>(again, Pieces());
  staged_->alone = true;
  AskDonors();
}

void StateTransfer::OnPeerUp(engine::ClusterId peer) {
  if (!staged_ || staged_->verifying || !staged_->donors.Contains(peer)) return;
  staged_->away.Erase(peer);
  staged_->shares.TakeBack(peer);  // of its last link
  AskDonors();
}

void StateTransfer::OnPeerDown(engine::ClusterId peer) {
  for (size_t i = waiting_.size(); i > 1; --i) {
    if (waiting_[i - 1].to != peer) continue;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    rounds_->AllowCommits();
  }
  if (serving() && waiting_.front().to == peer) {
    waiting_.front().gone = true;
    FinishIfServed();
  }
  if (!fetching() || staged_->verifying || !staged_->donors.Contains(peer)) return;
  staged_->away.Insert(peer);
  staged_->shares.TakeBack(peer);
  AskDonors();
}

void StateTransfer::Adopt(const engine::AdoptState& action) {
  assert(action.from_trainer || (staged_ && staged_->verified && staged_->state == action.state));
  // An older commit of the fragment may be held back or on workers.
  rounds_->BeginReplacing([this, action, staged = action.from_trainer ? nullptr : staged_] {
    Replace(action, staged);
  });
}

void StateTransfer::Replace(const engine::AdoptState& action, std::shared_ptr<Staged> staged) {
  const absl::Span<float> value = context_.endpoint->WritableValue(fragment_, action.state.round);
  if (staged) {
    const absl::Status taken =
        context_.outer->SetWords(fragment_, staged->answers.begin()->second.words);
    assert(taken.ok() && "they were checked with the state's hash");
    (void)taken;
  }
  tasks_.Run(
      [context = context_, staged, fragment = fragment_, chunks = chunks_, value] {
        if (!staged) {
          context.endpoint->LoadSnapshot(fragment, value);
          context.outer->Reset(fragment);
        }
        for (uint32_t index = 0; index < chunks; ++index) {
          const absl::Span<float> part =
              value.subspan(uint64_t{index} * compression::kChunkElements,
                            context.layout->ChunkElements(fragment, index));
          if (staged) Decode(staged->chunks[index], part);
          const absl::Span<float> momentum = context.outer->Momentum(fragment, index);
          if (staged && !momentum.empty()) Decode(staged->chunks[chunks + index], momentum);
          context.outer->HashChunk(fragment, index, part);
        }
      },
      [this, action] { Finish(action); });
}

void StateTransfer::Finish(const engine::AdoptState& action) {
  if (rounds_->encoding()) {  // a contribution of old is still on workers
    tasks_.After(kMemoryRetryUs, [this, action] { Finish(action); });
    return;
  }
  context_.endpoint->Publish(fragment_, action.state.round);
  rounds_->SettleOwn(action.own);
  if (!action.forward) context_.endpoint->ResetResidual(fragment_);
  SetCommitted(action.state);
  rounds_->SetCommitted(action.state.round, action.forward);
  context_.listener->OnAdopted(fragment_, action.state);
  rounds_->EndReplacing();
}

void StateTransfer::Relabel(const engine::StateId& state) {
  rounds_->BeginReplacing([this, state] { FinishRelabel(state); });
}

void StateTransfer::FinishRelabel(const engine::StateId& state) {
  if (rounds_->encoding()) {  // a contribution of old is still on workers
    tasks_.After(kMemoryRetryUs, [this, state] { FinishRelabel(state); });
    return;
  }
  rounds_->SettleOwn(engine::OwnPart::kExcluded);
  context_.endpoint->ResetResidual(fragment_);
  SetCommitted(state);
  rounds_->SetCommitted(state.round, false);
  context_.listener->OnAdopted(fragment_, state);
  rounds_->EndReplacing();
}

// ---------------------------------------------------------------- donor

void StateTransfer::OnRequest(engine::ClusterId from, const engine::StateId& state,
                              const PieceSet& wanted) {
  const bool have = committed_ == state && !rounds_->committing() && !rounds_->replacing() &&
                    !stuck_ && wanted.Fits(Pieces());
  if (!have) {
    context_.port->OfferState(from, fragment_, state, {});
    return;
  }
  context_.port->OfferState(
      from, fragment_, state,
      {true, context_.outer->StateHash(fragment_), context_.outer->Words(fragment_)});
  // Who is being served may have lost what was sent, or wants what another donor did not send.
  const auto queued = std::find_if(waiting_.begin() + (serving() ? 1 : 0), waiting_.end(),
                                   [&](const Serving& s) { return s.to == from && !s.gone; });
  if (queued != waiting_.end()) {
    Serving more{from, state, wanted};
    if (queued->state == state) more.wanted.Add(queued->wanted);
    Skip(&more);
    *queued = more;
    return;
  }
  waiting_.push_back({from, state, wanted});
  Skip(&waiting_.back());
  ++moved_;
  Watch();
  rounds_->HoldCommits();
  if (waiting_.size() == 1) ServeMore();
}

// To the next piece that is wanted.
void StateTransfer::Skip(Serving* serving) const {
  while (serving->next < Pieces() && !serving->wanted.Contains(serving->next)) ++serving->next;
}

void StateTransfer::ServeMore() {
  if (!serving()) return;
  Serving& serving = waiting_.front();
  const bool replaced =
      rounds_->replacing() || !context_.endpoint->Holds(fragment_, serving.state.round);
  if (replaced && !serving.gone && serving.next < Pieces()) {
    context_.port->OfferState(serving.to, fragment_, serving.state, {});
    serving.gone = true;
  }
  const uint32_t window = static_cast<uint32_t>(context_.workers->threads()) + 1;
  while (!serving.gone && !retrying_ && serving.next < Pieces() && serving.encoding < window &&
         in_flight_ + serving.encoding < context_.served_ahead_max) {
    if (!EncodePiece(serving.next)) {
      RetryServing();
      return;
    }
    ++serving.next;
    Skip(&serving);
  }
  FinishIfServed();
}

void StateTransfer::RetryServing() {
  if (std::exchange(retrying_, true)) return;
  tasks_.After(kMemoryRetryUs, [this] {
    retrying_ = false;
    ServeMore();
  });
}

// False: no memory.
bool StateTransfer::EncodePiece(uint32_t piece) {
  Serving& serving = waiting_.front();
  const uint32_t index = piece % chunks_;
  const uint32_t n = context_.layout->ChunkElements(fragment_, index);
  const float* source = piece < chunks_
                            ? context_.endpoint->Value(fragment_, serving.state.round).data() +
                                  uint64_t{index} * compression::kChunkElements
                            : context_.outer->Momentum(fragment_, index).data();
  absl::StatusOr<memory::Buffer> buffer =
      context_.buffers->Allocate(compression::EncodedSizeMax(kStateCodec, n));
  if (!buffer.ok()) return false;
  ++serving.encoding;
  auto result = std::make_shared<memory::Buffer>(*std::move(buffer));  // shared by the two halves
  tasks_.Run(
      [result, source, n, keep = context_.endpoint, keep_too = context_.outer] {
        compression::EncodeInput input;
        input.snapshot = source;
        input.n = n;
        compression::EncodeStats stats;
        auto* bytes = reinterpret_cast<uint8_t*>(result->data());
        result->Resize(
            compression::EncodeChunk(kStateCodec, input, {bytes, result->size()}, &stats));
      },
      [this, piece, result] { OnPieceEncoded(piece, std::move(*result)); });
  return true;
}

// The joiner whose state this is stays in front until all that was begun for it is here.
void StateTransfer::OnPieceEncoded(uint32_t piece, memory::Buffer bytes) {
  Serving& serving = waiting_.front();
  --serving.encoding;
  if (!serving.gone) {
    ChunkAddress address;
    address.kind = ChunkKind::kState;
    address.lineage = serving.state.lineage;
    address.fragment = fragment_;
    address.round = serving.state.round;
    address.incarnation = context_.incarnation;
    address.index = piece;
    if (context_.port->SendChunk(serving.to, address, memory::SharedBuffer(std::move(bytes)),
                                 false)) {
      ++in_flight_;
      ++moved_;
    } else {
      serving.next = std::min(serving.next, piece);  // its queue is full, or its link just ended
      RetryServing();
    }
  }
  ServeMore();
}

void StateTransfer::OnChunkDone() {
  if (in_flight_ == 0) return;  // a piece of an exchange before this one
  --in_flight_;
  ++moved_;
  stuck_ = false;
  ServeMore();
}

// Looks again after a while, as long as somebody is served.
void StateTransfer::Watch() {
  if (std::exchange(watching_, true)) return;
  tasks_.After(context_.serve_patience_us, [this, before = moved_] {
    watching_ = false;
    if (serving() && moved_ == before) GiveUpServing();
    if (serving()) Watch();
  });
}

// A joiner whose window is shut would hold up every round of the fragment.
void StateTransfer::GiveUpServing() {
  Serving& serving = waiting_.front();
  if (serving.gone) return;
  context_.listener->OnNote(absl::StrCat("cluster ", serving.to, " takes nothing of fragment ",
                                         fragment_, "'s state: it is not served any further"));
  context_.port->OfferState(serving.to, fragment_, serving.state, {});
  serving.gone = true;
  stuck_ = in_flight_ > 0;
  FinishIfServed();
}

void StateTransfer::FinishIfServed() {
  const Serving& serving = waiting_.front();
  if (serving.encoding > 0 || (!serving.gone && serving.next < Pieces())) return;
  waiting_.erase(waiting_.begin());
  rounds_->AllowCommits();
  ServeMore();
}

}  // namespace causeway::exchange
