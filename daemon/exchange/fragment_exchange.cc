// Chunks are scheduled from the loop rather than by workers themselves: all bookkeeping then stays
// on one thread, and a chunk of 2^18 elements is large enough to pay for the hop.
#include "daemon/exchange/fragment_exchange.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace causeway::exchange {
namespace {

// Chunks of one fragment on workers at a time: enough to keep them busy, few enough that the first
// chunks leave early.
uint32_t Window(const Context& context) {
  return static_cast<uint32_t>(context.workers->threads()) + 1;
}

absl::Span<const float> Part(const Context& context, engine::FragmentId fragment, uint32_t chunk,
                             absl::Span<const float> values) {
  return values.subspan(uint64_t{chunk} * compression::kChunkElements,
                        context.layout->ChunkElements(fragment, chunk));
}

absl::Span<float> Part(const Context& context, engine::FragmentId fragment, uint32_t chunk,
                       absl::Span<float> values) {
  return values.subspan(uint64_t{chunk} * compression::kChunkElements,
                        context.layout->ChunkElements(fragment, chunk));
}

// Puts the chunk's packed form into its place where that is smaller.
void Pack(EntropyPool* entropy, memory::Buffer* chunk, memory::Buffer* packed) {
  auto* out = reinterpret_cast<uint8_t*>(packed->data());
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(chunk->data()),
                                        chunk->size());
  const size_t size = entropy->With([&](compression::EntropyWorkspace* workspace) -> size_t {
    const absl::Span<const uint8_t> made =
        compression::PackChunk(bytes, workspace, {out, packed->size()});
    return made.data() == out ? made.size() : 0;
  });
  if (size == 0) return;
  packed->Resize(size);
  std::swap(*chunk, *packed);
}

// Differs per round and cluster (stochastic rounding).
uint32_t Seed(engine::RoundNumber round, engine::ClusterId self) {
  return static_cast<uint32_t>(round) * 0x9e3779b1u + self;
}

}  // namespace

FragmentExchange::FragmentExchange(const Context& context, engine::FragmentId fragment)
    : context_(context),
      fragment_(fragment),
      chunks_(context.layout->fragments().at(fragment).chunks),
      inbox_(chunks_, [this](engine::ClusterId from, uint64_t bytes) {
        context_.port->ReturnCredit(from, bytes);
      }) {}

FragmentExchange::~FragmentExchange() = default;

void FragmentExchange::RunOnWorker(std::function<void()> work, std::function<void()> done) {
  context_.workers->Submit([loop = context_.loop, work = std::move(work), done = std::move(done),
                            alive = std::weak_ptr<bool>(alive_)]() mutable {
    work();
    loop->Post([done = std::move(done), alive = std::move(alive)] {
      if (!alive.expired()) done();
    });
  });
}

void FragmentExchange::After(int64_t delay_us, std::function<void()> function) {
  context_.loop->After(delay_us,
                       [function = std::move(function), alive = std::weak_ptr<bool>(alive_)] {
                         if (!alive.expired()) function();
                       });
}

// ---------------------------------------------------------------- own contribution

void FragmentExchange::StartContribution(const engine::StartContribution& action) {
  if (drop_when_encoded_) {
    next_start_ = action;
    return;
  }
  const absl::Status begun = context_.endpoint->Begin(fragment_, action.round - 1, action.weight,
                                                      Seed(action.round, context_.self));
  if (!begun.ok()) {
    context_.listener->OnContributionFailed(action.op, fragment_, begun);
    return;
  }
  own_ = std::make_unique<Contribution>(action.op, action.round, action.lineage, chunks_);
  own_->Address(action.epoch, action.to);
  EncodeMore();
}

// The endpoint's open contribution counts nowhere. Workers may still be encoding it.
void FragmentExchange::DropEncoding() {
  if (!context_.endpoint->open(fragment_)) return;
  if (encoding_ > 0) {
    drop_when_encoded_ = true;
    return;
  }
  drop_when_encoded_ = false;
  context_.endpoint->Drop(fragment_);
  if (next_start_) StartContribution(*std::exchange(next_start_, std::nullopt));
}

void FragmentExchange::EncodeMore() {
  while (own_ && encoding_ < Window(context_) && own_->next_to_encode < own_->size()) {
    EncodeChunk(own_->next_to_encode++);
    if (encode_retry_) return;
  }
}

void FragmentExchange::EncodeChunk(uint32_t index) {
  absl::StatusOr<memory::Buffer> buffer =
      context_.buffers->Allocate(context_.endpoint->EncodedSizeMax(fragment_, index));
  if (!buffer.ok()) {
    --own_->next_to_encode;
    RetryEncoding();
    return;
  }
  absl::StatusOr<memory::Buffer> second =
      context_.buffers->Allocate(context_.codec.entropy ? buffer->size() : 0);
  if (!second.ok()) {
    --own_->next_to_encode;
    RetryEncoding();
    return;
  }
  ++encoding_;
  auto packed = std::make_shared<memory::Buffer>(*std::move(second));  // shared by the two halves
  auto result = std::make_shared<memory::Buffer>(*std::move(buffer));  // shared by the two halves
  RunOnWorker(
      [endpoint = context_.endpoint, entropy = context_.entropy, codec = context_.codec,
       fragment = fragment_, index, result, packed] {
        auto* bytes = reinterpret_cast<uint8_t*>(result->data());
        result->Resize(endpoint->EncodeChunk(fragment, index, {bytes, result->size()}).bytes);
        if (codec.entropy) Pack(entropy.get(), result.get(), packed.get());
      },
      [this, op = own_->op(), index, result] {
        --encoding_;
        OnEncoded(op, index, memory::SharedBuffer(std::move(*result)));
      });
}

void FragmentExchange::RetryEncoding() {
  if (encode_retry_) return;
  encode_retry_ = true;
  After(kMemoryRetryUs, [this] {
    encode_retry_ = false;
    EncodeMore();
  });
}

void FragmentExchange::OnEncoded(engine::OpId op, uint32_t index, memory::SharedBuffer payload) {
  if (drop_when_encoded_) {
    if (encoding_ == 0) DropEncoding();
    return;
  }
  if (!own_ || own_->op() != op) return;
  own_->Set(index, std::move(payload));
  for (engine::ClusterId to : own_->to()) SendChunk(to, own_->epoch(), index);
  ReduceChunk(index);
  EncodeMore();
}

void FragmentExchange::SendChunk(engine::ClusterId to, engine::Epoch epoch, uint32_t index) {
  if (to == context_.self) return;
  ChunkAddress address;
  address.epoch = epoch;
  address.lineage = own_->lineage();
  address.fragment = fragment_;
  address.round = own_->round();
  address.incarnation = context_.incarnation;
  address.index = index;
  context_.port->SendChunk(to, address, *own_->chunk(index));
}

void FragmentExchange::Resend(const engine::ResendContribution& action) {
  if (!own_ || own_->op() != action.op) {
    context_.listener->OnNote("asked to resend a contribution that is not retained");
    return;
  }
  own_->Address(action.epoch, action.to);
  for (uint32_t index = 0; index < own_->size(); ++index) {
    if (own_->chunk(index) == nullptr) continue;  // goes to all of to() once encoded
    for (engine::ClusterId to : action.to) SendChunk(to, action.epoch, index);
  }
}

void FragmentExchange::SendAgain(engine::ClusterId to, engine::RoundNumber round,
                                 const std::vector<uint32_t>& indices) {
  if (!own_ || own_->round() != round || !own_->to().Contains(to)) return;
  for (uint32_t index : indices) {
    if (index < own_->size() && own_->chunk(index) != nullptr) SendChunk(to, own_->epoch(), index);
  }
}

void FragmentExchange::Release(engine::OpId op) {
  if (!own_ || own_->op() != op) return;
  context_.port->CancelChunks(fragment_, own_->round());
  own_.reset();
  // A commit on its way settles the endpoint's part itself.
  if (!commit_ || commit_->action.own_op != op) DropEncoding();
}

// ---------------------------------------------------------------- what arrives

// Everything that makes the bytes safe to decode; packed ones are opened once to know it.
absl::Status FragmentExchange::Check(uint32_t index, const memory::Buffer& payload) const {
  const uint32_t elements = context_.layout->ChunkElements(fragment_, index);
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(payload.data()),
                                        payload.size());
  if (!context_.codec.entropy) return compression::CheckChunk(context_.codec, elements, bytes);
  return context_.entropy->With([&](compression::EntropyWorkspace* workspace) {
    return compression::OpenChunk(context_.codec, elements, bytes, workspace).status();
  });
}

void FragmentExchange::OnChunk(engine::ClusterId from, const ChunkAddress& address,
                               memory::Buffer payload) {
  const uint64_t bytes = payload.size();
  // No bound on rounds ahead: a member that is still fetching the state is far behind what it is
  // sent, and nobody would send it again. Credits bound the bytes.
  if (address.round <= committed_ || address.index >= chunks_) {
    context_.port->ReturnCredit(from, bytes);
    return;
  }
  const absl::Status good = Check(address.index, payload);
  if (!good.ok()) {
    context_.port->ReturnCredit(from, bytes);
    context_.listener->OnBadChunk(from, address, good);
    return;
  }
  if (inbox_.Put(from, address, memory::SharedBuffer(std::move(payload)))) {
    ReduceChunk(address.index);
  }
}

// ---------------------------------------------------------------- combining

void FragmentExchange::Reduce(const engine::Reduce& action) {
  if (commit_) {
    next_reduce_ = action;
    return;
  }
  StartReduction(action);
}

void FragmentExchange::StartReduction(const engine::Reduce& action) {
  if (reduction_ && reduction_->SameSet(action)) {
    reduction_->Rename(action);
    reduction_->announced = false;
    ReduceMore();
    AnnounceIfHeld();
    return;
  }
  reduction_ = std::make_shared<Reduction>(action, chunks_);
  ++generation_;
  if (reduction_->unchanged()) {
    for (uint32_t index = 0; index < chunks_; ++index) reduction_->Finish(index, {});
    AnnounceIfHeld();
    return;
  }
  AskForConsumed();
  ReduceMore();
}

// Chunks that an earlier attempt has used up are asked for again: their senders retain them.
void FragmentExchange::AskForConsumed() {
  const engine::Reduce& order = reduction_->order();
  for (const engine::Contributor& c : order.contributors) {
    if (c.cluster == context_.self) continue;
    std::vector<uint32_t> missing;
    for (uint32_t index = 0; index < chunks_; ++index) {
      if (!inbox_.Consumed(c.cluster, c.incarnation, order.epoch, order.round, index)) continue;
      inbox_.Reopen(c.cluster, c.incarnation, order.epoch, order.round, index);
      missing.push_back(index);
    }
    if (!missing.empty()) context_.port->RequestChunks(c.cluster, fragment_, order.round, missing);
  }
}

void FragmentExchange::ReduceMore() {
  for (uint32_t index = 0; index < chunks_ && !reduce_retry_; ++index) ReduceChunk(index);
}

bool FragmentExchange::Gather(uint32_t index, std::vector<memory::SharedBuffer>* payloads) const {
  const engine::Reduce& order = reduction_->order();
  for (const engine::Contributor& c : order.contributors) {
    const memory::SharedBuffer* payload = nullptr;
    if (c.cluster != context_.self) {
      payload = inbox_.Find(c.cluster, c.incarnation, order.epoch, order.round, index);
    } else if (own_ && own_->op() == c.op && own_->round() == order.round) {
      payload = own_->chunk(index);
    }
    if (payload == nullptr) return false;
    payloads->push_back(*payload);
  }
  return true;
}

void FragmentExchange::ReduceChunk(uint32_t index) {
  if (!reduction_ || commit_ || reduction_->started(index) || reduction_->unchanged()) return;
  std::vector<memory::SharedBuffer> payloads;
  if (!Gather(index, &payloads)) return;
  const uint32_t elements = context_.layout->ChunkElements(fragment_, index);
  absl::StatusOr<memory::Buffer> mean = context_.buffers->Allocate(elements * sizeof(float));
  if (!mean.ok()) {
    RetryReducing();
    return;
  }
  reduction_->Start(index);
  auto result = std::make_shared<ReducedChunk>();  // shared by the two halves
  result->mean = *std::move(mean);
  RunOnWorker(
      [codec = context_.codec, entropy = context_.entropy, payloads = std::move(payloads),
       weights = reduction_->weights(), elements, result] {
        auto* out = reinterpret_cast<float*>(result->mean.data());
        CombineChunk(codec, entropy.get(), payloads, weights, {out, elements}, &result->hash,
                     &result->nonfinite);
      },
      [this, generation = generation_, index, result] {
        OnReduced(generation, index, std::move(*result));
      });
}

void FragmentExchange::RetryReducing() {
  if (reduce_retry_) return;
  reduce_retry_ = true;
  After(kMemoryRetryUs, [this] {
    reduce_retry_ = false;
    ReduceMore();
  });
}

void FragmentExchange::OnReduced(uint64_t generation, uint32_t index, ReducedChunk reduced) {
  if (!reduction_ || generation != generation_) return;
  const engine::Reduce& order = reduction_->order();
  for (const engine::Contributor& c : order.contributors) {
    if (c.cluster != context_.self) {
      inbox_.Consume(c.cluster, c.incarnation, order.epoch, order.round, index);
    }
  }
  reduction_->Finish(index, std::move(reduced));
  AnnounceIfHeld();
}

void FragmentExchange::AnnounceIfHeld() {
  if (!reduction_->held() || reduction_->announced || replacing()) return;
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
  assert(!commit_ && reduction_ && reduction_->held());
  assert(reduction_->order().round == action.record.state.round);
  commit_ = Committing{action, chunks_};
  commit_started_ = false;
  if (holds_ == 0) StartCommit();
}

void FragmentExchange::HoldCommits() { ++holds_; }

void FragmentExchange::AllowCommits() {
  assert(holds_ > 0);
  if (--holds_ == 0 && commit_ && !commit_started_) StartCommit();
}

void FragmentExchange::BeginReplacing() {
  ++replacing_;
  HoldCommits();
}

void FragmentExchange::EndReplacing() {
  assert(replacing_ > 0);
  --replacing_;
  AllowCommits();
  if (reduction_) AnnounceIfHeld();
}

void FragmentExchange::StartCommit() {
  commit_started_ = true;
  const engine::RoundNumber round = commit_->action.record.state.round;
  const bool unchanged = reduction_->unchanged();
  const absl::Span<float> next_value = context_.endpoint->WritableValue(fragment_, round);
  // Gradient averaging has no previous value; its rule does not look at it.
  const absl::Span<const float> previous_value =
      context_.outer->rule(fragment_).HasOuterState()
          ? context_.endpoint->Value(fragment_, round - 1)
          : absl::Span<const float>(next_value);
  for (uint32_t index = 0; index < chunks_; ++index) {
    const absl::Span<const float> previous = Part(context_, fragment_, index, previous_value);
    const absl::Span<float> next = Part(context_, fragment_, index, next_value);
    RunOnWorker(
        [outer = context_.outer, endpoint = context_.endpoint, reduction = reduction_,
         fragment = fragment_, index, previous, next, unchanged] {
          if (unchanged) {
            outer->CopyChunk(fragment, index, previous, next);
          } else {
            const auto* mean = reinterpret_cast<const float*>(reduction->chunk(index).mean.data());
            outer->StepChunk(fragment, index, previous, {mean, next.size()}, next);
          }
        },
        [this] { OnChunkCommitted(); });
  }
}

void FragmentExchange::OnChunkCommitted() {
  if (--commit_->left == 0) FinishCommit();
}

void FragmentExchange::FinishCommit() {
  CommitReport report;
  report.record = commit_->action.record;
  report.own = commit_->action.own;
  report.own_op = commit_->action.own_op;
  report.nonfinite = reduction_->nonfinite();
  context_.endpoint->Publish(fragment_, report.record.state.round);
  // A round that changed nothing commits without waiting for anybody's bytes, its own included.
  if (report.own == engine::OwnPart::kCounted && !reduction_->unchanged()) {
    context_.endpoint->Commit(fragment_);
  } else if (report.own != engine::OwnPart::kNone) {
    DropEncoding();
  }
  reduction_.reset();
  commit_.reset();
  SetCommitted(report.record.state.round);
  std::optional<engine::Reduce> next = std::exchange(next_reduce_, std::nullopt);
  context_.listener->OnCommitted(report);
  if (next) StartReduction(*next);
}

void FragmentExchange::SettleOwn(engine::OwnPart own) {
  assert(encoding_ == 0);
  drop_when_encoded_ = false;
  if (!context_.endpoint->open(fragment_)) return;
  if (own == engine::OwnPart::kCounted) {
    context_.endpoint->Commit(fragment_);
  } else {
    context_.endpoint->Drop(fragment_);
  }
}

void FragmentExchange::SetCommitted(engine::RoundNumber round) {
  assert(!commit_);
  committed_ = round;
  inbox_.DropRounds(round);
  if (reduction_ && reduction_->order().round <= round) reduction_.reset();
}

// ---------------------------------------------------------------- status

FragmentProgress FragmentExchange::Progress() const {
  FragmentProgress out;
  out.chunks_total = chunks_;
  if (own_) out.chunks_encoded = own_->encoded();
  if (reduction_) out.chunks_reduced = reduction_->done();
  if (commit_) {
    out.phase = "committing";
  } else if (reduction_ && reduction_->held()) {
    out.phase = "completing";
  } else if (own_ && !own_->complete()) {
    out.phase = "encoding";
  } else if (own_ || reduction_) {
    out.phase = "exchanging";
  }
  return out;
}

uint64_t FragmentExchange::encoded_bytes(engine::OpId op) const {
  return own_ && own_->op() == op ? own_->encoded_bytes() : 0;
}

}  // namespace causeway::exchange
