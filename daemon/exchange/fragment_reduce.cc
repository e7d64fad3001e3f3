// The combining half of a fragment's exchange: orders to reduce, chunk by chunk, and what an owner
// passes on. What is done with one chunk on a worker is in combine.h.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/exchange/fragment_exchange.h"

namespace causeway::exchange {
namespace {

// Of stochastic rounding of results: differs per round, cluster and chunk, and from contributions'.
uint32_t ResultSeed(engine::RoundNumber round, engine::ClusterId self, uint32_t index) {
  return (static_cast<uint32_t>(round) * 0x85ebca6bu + self) * 0xc2b2ae35u + index;
}

}  // namespace

// One chunk on a worker.
struct FragmentExchange::Job {
  std::vector<EncodedPart> parts;  // contributions in order, or the owner's result
  bool combines = true;
  std::optional<ResultEncoding> encoding;  // an owner's
  ReducedChunk out;
  std::optional<BadPart> bad;
};

// ---------------------------------------------------------------- combining

void FragmentExchange::Reduce(const engine::Reduce& action) {
  if (committing()) {
    next_reduce_ = action;
    return;
  }
  StartReduction(action);
}

// Nullopt: a plan is not known here yet.
std::optional<ReductionPlan> FragmentExchange::PlanFor(const engine::Reduce& action) {
  ReductionPlan out;
  out.owners = std::make_shared<const Owners>();
  engine::PlanId highest = 0;
  for (const engine::Contributor& c : action.contributors) highest = std::max(highest, c.plan);
  for (const engine::Contributor& c : action.contributors) {
    const planning::Plan* plan = context_.plans->Find(c.plan);
    if (plan == nullptr) return std::nullopt;
    out.codecs.push_back(plan->ContributionCodec(c.cluster));
    out.routes.push_back(routing_.Of(c.plan, *plan));
    if (c.plan != highest) continue;
    out.owners = out.routes.back();
    out.result_codec = plan->codec;
  }
  return out;
}

void FragmentExchange::StartReduction(const engine::Reduce& action) {
  std::optional<ReductionPlan> plan = PlanFor(action);
  if (!plan) {
    context_.listener->OnNote(absl::StrCat("fragment ", fragment_, " round ", action.round,
                                           " waits: it names a plan that is not known here"));
    next_reduce_ = action;
    return;
  }
  next_reduce_.reset();
  inbox_.DropResultsBefore(action.epoch, action.round, action.attempt);
  auto next = std::make_shared<Reduction>(action, *std::move(plan), context_.self, chunks_);
  const bool same = reduction_ && reduction_->SameWork(*next);
  context_.reserve->Open(fragment_, action.round);
  // In another epoch what was asked of the others is void and goes out again.
  if (same && next->direct() && reduction_->order().epoch == action.epoch) {
    reduction_->Rename(action);
    reduction_->announced = false;
  } else {
    if (same) next->TakeOwned(*reduction_);
    reduction_ = std::move(next);
    ++generation_;
    if (reduction_->unchanged()) {
      for (uint32_t index = 0; index < chunks_; ++index) reduction_->Finish(index, {});
    }
    for (uint32_t index = 0; index < chunks_; ++index) SendResults(index);
    SpendUnused();
    AskForMissing();
  }
  if (!reduction_->unchanged()) own_.Demand(action.round);
  ReduceMore();
  AnnounceIfHeld();
}

Inbox::Name FragmentExchange::PartName(const engine::Contributor& contributor) const {
  const engine::Reduce& order = reduction_->order();
  return {contributor.cluster,     contributor.incarnation, order.epoch, order.round, 0,
          ChunkKind::kContribution};
}

Inbox::Name FragmentExchange::ResultName(engine::ClusterId owner) const {
  const engine::Reduce& order = reduction_->order();
  return {owner,         routing_.incarnation(owner), order.epoch, order.round,
          order.attempt, ChunkKind::kResult};
}

// Frees what came for a plan that is not the round's.
void FragmentExchange::SpendUnused() {
  if (reduction_->direct()) return;
  for (const engine::Contributor& c : reduction_->order().contributors) {
    for (uint32_t index = 0; index < chunks_; ++index) {
      if (!reduction_->Combines(index)) inbox_.Consume(PartName(c), index);
    }
  }
}

void FragmentExchange::AskForMissing() {
  if (reduction_->unchanged()) return;
  for (size_t i = 0; i < reduction_->order().contributors.size(); ++i) {
    if (reduction_->order().contributors[i].cluster != context_.self) AskOf(i);
  }
  if (!reduction_->direct()) AskOwners();
}

// Results that came before there was room for them.
void FragmentExchange::AskOwners() {
  std::map<engine::ClusterId, std::vector<uint32_t>> used_up;
  for (uint32_t index = 0; index < chunks_; ++index) {
    const engine::ClusterId owner = reduction_->owner(index);
    if (owner == context_.self || reduction_->finished(index)) continue;
    const Inbox::Name name = ResultName(owner);
    if (!inbox_.Consumed(name, index)) continue;
    inbox_.Ask(name, index);
    used_up[owner].push_back(index);
  }
  for (auto& [owner, indices] : used_up) {
    Request(owner, ResultName(owner), std::move(indices), true);
  }
}

// Chunks that an earlier attempt has used up, and those that their sender's plan sends to others:
// senders retain them.
void FragmentExchange::AskOf(size_t contributor) {
  const engine::Contributor& c = reduction_->order().contributors[contributor];
  const Inbox::Name name = PartName(c);
  std::vector<uint32_t> used_up;
  std::vector<uint32_t> elsewhere;
  for (uint32_t index = 0; index < chunks_; ++index) {
    if (!reduction_->Combines(index) || reduction_->finished(index)) continue;
    if (inbox_.Consumed(name, index)) {
      used_up.push_back(index);
    } else if (!reduction_->ComesByItself(contributor, index) &&
               inbox_.Find(name, index) == nullptr) {
      elsewhere.push_back(index);
    } else {
      continue;
    }
    inbox_.Ask(name, index);
  }
  Request(c.cluster, name, std::move(used_up), true);
  Request(c.cluster, name, std::move(elsewhere), false);
}

void FragmentExchange::Request(engine::ClusterId from, const Inbox::Name& name,
                               std::vector<uint32_t> indices, bool used_up) {
  ChunkRequest request;
  request.kind = name.kind;
  request.fragment = fragment_;
  request.round = name.round;
  request.used_up = used_up;
  for (size_t first = 0; first < indices.size(); first += kRequestIndicesMax) {
    const size_t count = std::min(kRequestIndicesMax, indices.size() - first);
    const auto begin = indices.begin() + static_cast<std::ptrdiff_t>(first);
    request.indices.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    context_.port->RequestChunks(from, request);
  }
}

void FragmentExchange::ReduceMore() {
  for (uint32_t index = 0; index < chunks_ && !reduce_retry_; ++index) ReduceChunk(index);
}

// False: something of the chunk has not come.
bool FragmentExchange::Gather(uint32_t index, Job* job) {
  if (!reduction_->Combines(index)) {
    const memory::SharedBuffer* payload = inbox_.Find(ResultName(reduction_->owner(index)), index);
    if (payload == nullptr) return false;
    job->combines = false;
    job->parts.push_back({*payload, reduction_->plan().result_codec, false});
    return true;
  }
  const engine::Reduce& order = reduction_->order();
  for (size_t i = 0; i < order.contributors.size(); ++i) {
    const engine::Contributor& c = order.contributors[i];
    const bool own = c.cluster == context_.self;
    const memory::SharedBuffer* payload =
        own ? own_.Find(c.op, order.round, index) : inbox_.Find(PartName(c), index);
    if (payload == nullptr) return false;
    job->parts.push_back({*payload, reduction_->plan().codecs[i], own});
  }
  return true;
}

// The memory that the chunk takes. False: there is none.
bool FragmentExchange::Provide(uint32_t index, Job* job) {
  const auto keep = [](absl::StatusOr<memory::Buffer> buffer, memory::Buffer* out) {
    if (buffer.ok()) *out = *std::move(buffer);
    return buffer.ok();
  };
  const auto allocate = [&](size_t size, memory::Buffer* out) {
    return keep(context_.reserve->Allocate(fragment_, size), out);
  };
  const uint32_t elements = context_.layout->ChunkElements(fragment_, index);
  if (!allocate(elements * sizeof(float), &job->out.mean)) return false;
  if (!job->combines || reduction_->direct()) return true;
  ResultEncoding& encoding = job->encoding.emplace();
  encoding.codec = reduction_->plan().result_codec;
  encoding.seed = ResultSeed(reduction_->order().round, context_.self, index);
  if (encoding.codec.kind == compression::CodecKind::kLowRank) {
    encoding.pieces = context_.endpoint->PiecesOf(fragment_, index);
  }
  encoding.residual_in = residual_.chunk(index);
  const size_t size = compression::EncodedSizeMax(encoding.codec, elements);
  return allocate(size, &encoding.bytes) &&
         (!encoding.codec.entropy || allocate(size, &encoding.packed)) &&
         (!encoding.codec.error_feedback ||
          keep(context_.reserve->AllocateResidual(elements * sizeof(uint16_t)),
               &encoding.residual_out));
}

void FragmentExchange::ReduceChunk(uint32_t index) {
  if (!reduction_ || committing() || reduction_->started(index) || reduction_->unchanged()) return;
  auto job = std::make_shared<Job>();  // shared by the two halves
  if (!Gather(index, job.get())) return;
  if (!Provide(index, job.get())) {
    RetryReducing();
    return;
  }
  reduction_->Start(index);
  tasks_.Run(
      [entropy = context_.entropy, weights = reduction_->weights(),
       combine = context_.mean_of_senders ? CombineSenders : CombineChunk, job] {
        job->bad = job->combines ? combine(entropy.get(), job->parts, weights, &job->out)
                                 : DecodeResult(entropy.get(), job->parts[0], &job->out);
        if (job->bad) return;
        if (job->encoding) EncodeResult(entropy.get(), *std::move(job->encoding), &job->out);
        Seal(&job->out);
      },
      [this, generation = generation_, index, job] { OnReduced(generation, index, *job); });
}

void FragmentExchange::RetryReducing() {
  if (reduce_retry_) return;
  reduce_retry_ = true;
  tasks_.After(kMemoryRetryUs, [this] {
    reduce_retry_ = false;
    ReduceMore();
  });
}

void FragmentExchange::OnReduced(uint64_t generation, uint32_t index, Job& job) {
  if (!reduction_ || generation != generation_) return;
  if (job.bad) {
    OnBadPart(index, job);
    return;
  }
  reduction_->Finish(index, std::move(job.out));
  Consume(index);
  SendResults(index);
  AnnounceIfHeld();
}

// Its sender is asked for a better one.
void FragmentExchange::OnBadPart(uint32_t index, const Job& job) {
  reduction_->Restart(index);
  const engine::Reduce& order = reduction_->order();
  const bool part = job.combines;
  const engine::ClusterId from =
      part ? order.contributors[job.bad->part].cluster : reduction_->owner(index);
  if (from == context_.self) {
    context_.listener->OnNote(absl::StrCat("own chunk ", index, " of fragment ", fragment_,
                                           " cannot be read: ", job.bad->status.message()));
    return;
  }
  const Inbox::Name name = part ? PartName(order.contributors[job.bad->part]) : ResultName(from);
  inbox_.Discard(name, index);
  inbox_.Ask(name, index);
  ChunkAddress address;
  address.kind = name.kind;
  address.epoch = name.epoch;
  address.lineage = order.lineage;
  address.fragment = fragment_;
  address.round = name.round;
  address.attempt = name.attempt;
  address.incarnation = name.incarnation;
  address.index = index;
  context_.listener->OnBadChunk(from, address, job.bad->status);
  Request(from, name, {index}, true);
}

// Frees what the chunk was made of.
void FragmentExchange::Consume(uint32_t index) {
  if (!reduction_->Combines(index)) {
    inbox_.Consume(ResultName(reduction_->owner(index)), index);
    return;
  }
  for (const engine::Contributor& c : reduction_->order().contributors) {
    if (c.cluster != context_.self) inbox_.Consume(PartName(c), index);
  }
}

// ---------------------------------------------------------------- results of owned chunks

void FragmentExchange::SendResults(uint32_t index) {
  const bool made = !reduction_->unchanged() && !reduction_->direct() &&
                    reduction_->Combines(index) && reduction_->finished(index);
  if (!made) return;
  for (engine::ClusterId member : routing_.members()) SendResult(member, index, false);
}

void FragmentExchange::SendResult(engine::ClusterId to, uint32_t index, bool again) {
  if (to == context_.self) return;
  const engine::Reduce& order = reduction_->order();
  ChunkAddress address;
  address.kind = ChunkKind::kResult;
  address.epoch = order.epoch;
  address.lineage = order.lineage;
  address.fragment = fragment_;
  address.round = order.round;
  address.attempt = order.attempt;
  address.incarnation = context_.incarnation;
  address.index = index;
  context_.port->SendChunk(to, address, reduction_->chunk(index).result, again);
}

}  // namespace causeway::exchange
