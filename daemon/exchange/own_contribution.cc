// Chunks are scheduled from the loop rather than by workers themselves: all bookkeeping then stays
// on one thread, and a chunk of 2^18 elements is large enough to pay for the hop.
#include "daemon/exchange/own_contribution.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/exchange/packing.h"

namespace causeway::exchange {
namespace {

// Differs per round and cluster (stochastic rounding).
uint32_t Seed(engine::RoundNumber round, engine::ClusterId self) {
  return static_cast<uint32_t>(round) * 0x9e3779b1u + self;
}

absl::Span<const uint16_t> Bf16(const memory::SharedBuffer& buffer) {
  return {reinterpret_cast<const uint16_t*>(buffer.data()), buffer.size() / sizeof(uint16_t)};
}

}  // namespace

OwnContribution::OwnContribution(const Context& context, engine::FragmentId fragment,
                                 Routing* routing, OwnerResidual* residual,
                                 std::function<bool()> may_begin,
                                 std::function<void(uint32_t)> encoded)
    : context_(context),
      fragment_(fragment),
      chunks_(context.layout->fragments().at(fragment).chunks),
      routing_(routing),
      residual_(residual),
      may_begin_(std::move(may_begin)),
      encoded_(std::move(encoded)),
      tasks_(context.workers, context.loop) {}

void OwnContribution::Start(const engine::StartContribution& action) {
  own_ = std::make_unique<Contribution>(action, chunks_);
  plan_.reset();
  begun_ = demanded_ = false;
  Address(action.epoch, action.to);
  TryBegin();
}

void OwnContribution::Address(engine::Epoch epoch, engine::ClusterSet to) {
  if (!plan_) {
    if (const planning::Plan* known = context_.plans->Find(own_->plan())) plan_ = *known;
  }
  own_->Address(epoch, to, plan_ ? routing_->Of(own_->plan(), *plan_) : nullptr);
}

void OwnContribution::Demand(engine::RoundNumber round) {
  if (!own_ || own_->round() != round) return;
  demanded_ = true;
  TryBegin();
}

void OwnContribution::TryBegin() {
  if (!own_ || begun_ || (own_->weight() == 0 && !demanded_)) return;
  if (context_.endpoint->open(fragment_) || !may_begin_()) return;
  if (!plan_) Address(own_->epoch(), {});
  const bool outer = context_.outer->rule(fragment_).HasOuterState();
  const bool ready =
      plan_.has_value() && (!outer || context_.endpoint->Holds(fragment_, own_->round() - 1));
  if (!ready) return;
  const absl::Status begun = context_.endpoint->Begin(fragment_, own_->round() - 1, own_->weight(),
                                                      Seed(own_->round(), context_.self),
                                                      plan_->ContributionCodec(context_.self));
  assert(begun.ok() && "its value is here");
  (void)begun;
  begun_ = true;
  context_.reserve->Open(fragment_, own_->round());
  EncodeMore();
}

void OwnContribution::EncodeMore() {
  // Enough on workers to keep them busy, few enough that the first chunks leave early.
  const uint32_t window = static_cast<uint32_t>(context_.workers->threads()) + 1;
  while (own_ && begun_ && context_.endpoint->open(fragment_) && !retrying_ && encoding_ < window &&
         own_->next_to_encode < own_->size()) {
    if (!EncodeChunk(own_->next_to_encode)) {
      RetryEncoding();
      return;
    }
    ++own_->next_to_encode;
  }
}

// False: no memory.
bool OwnContribution::EncodeChunk(uint32_t index) {
  struct Job {
    memory::Buffer bytes;
    memory::Buffer packed;
    memory::SharedBuffer folded;  // of chunks that another cluster owns now
    double scale = 0;
    absl::Status status;
  };
  const compression::CodecSpec codec = plan_->ContributionCodec(context_.self);
  const size_t size = context_.endpoint->EncodedSizeMax(fragment_, index);
  absl::StatusOr<memory::Buffer> bytes = context_.reserve->Allocate(fragment_, size);
  if (!bytes.ok()) return false;
  absl::StatusOr<memory::Buffer> packed =
      context_.reserve->Allocate(fragment_, codec.entropy ? size : 0);
  if (!packed.ok()) return false;
  auto job = std::make_shared<Job>();  // shared by the two halves
  job->bytes = *std::move(bytes);
  job->packed = *std::move(packed);
  const bool owned_elsewhere = own_->owners()->empty() || (*own_->owners())[index] != context_.self;
  if (owned_elsewhere && own_->weight() > 0 && context_.endpoint->KeepsResidual()) {
    job->folded = residual_->Take(index);
    job->scale = residual_->Scale(own_->weight());
  }
  ++encoding_;
  tasks_.Run(
      [endpoint = context_.endpoint, entropy = context_.entropy, codec, fragment = fragment_, index,
       job] {
        if (job->folded.data() != nullptr) {
          endpoint->AddToResidual(fragment, index, Bf16(job->folded), job->scale);
          job->folded = {};
        }
        auto* out = reinterpret_cast<uint8_t*>(job->bytes.data());
        const endpoint::EncodedChunk encoded =
            endpoint->EncodeChunk(fragment, index, {out, job->bytes.size()});
        job->status = encoded.status;
        if (!job->status.ok()) return;
        job->bytes.Resize(encoded.bytes);
        if (codec.entropy) PackIfSmaller(entropy.get(), &job->bytes, &job->packed);
        job->packed.Reset();
      },
      [this, op = own_->op(), index, job] {
        --encoding_;
        if (!job->status.ok()) {
          OnFailed(job->status);
          return;
        }
        OnEncoded(op, index, memory::SharedBuffer(std::move(job->bytes)));
      });
  return true;
}

void OwnContribution::RetryEncoding() {
  retrying_ = true;
  tasks_.After(kMemoryRetryUs, [this] {
    retrying_ = false;
    EncodeMore();
  });
}

void OwnContribution::OnEncoded(engine::OpId op, uint32_t index, memory::SharedBuffer payload) {
  if (drop_when_encoded_) {
    if (encoding_ == 0) {
      DropOpen();
      TryBegin();
    }
    return;
  }
  if (!own_ || own_->op() != op || !begun_) return;
  own_->Set(index, std::move(payload));
  for (engine::ClusterId to : own_->Recipients(index)) SendChunk(to, index, false);
  encoded_(index);
  EncodeMore();
}

// Nothing of the chunk is anybody's: the contribution stays incomplete until it is released.
void OwnContribution::OnFailed(const absl::Status& status) {
  context_.listener->OnDeviceFailed(status);
  if (drop_when_encoded_ && encoding_ == 0) {
    DropOpen();
    TryBegin();
  }
}

void OwnContribution::SendChunk(engine::ClusterId to, uint32_t index, bool again) {
  if (to == context_.self) return;
  ChunkAddress address;
  address.epoch = own_->epoch();
  address.lineage = own_->lineage();
  address.fragment = fragment_;
  address.round = own_->round();
  address.incarnation = context_.incarnation;
  address.index = index;
  context_.port->SendChunk(to, address, *own_->chunk(index), again);
}

void OwnContribution::Resend(const engine::ResendContribution& action) {
  if (!own_ || own_->op() != action.op) {
    context_.listener->OnNote("asked to resend a contribution that is not retained");
    return;
  }
  Address(action.epoch, action.to);
  for (uint32_t index = 0; index < own_->size(); ++index) {
    if (own_->chunk(index) == nullptr) continue;  // goes to its recipients once encoded
    for (engine::ClusterId to : own_->Recipients(index) & action.to) SendChunk(to, index, false);
  }
}

void OwnContribution::SendAgain(engine::ClusterId to, engine::RoundNumber round,
                                const std::vector<uint32_t>& indices, bool used_up) {
  if (!own_ || own_->round() != round || !own_->to().Contains(to)) return;
  for (uint32_t index : indices) {
    if (index >= own_->size()) continue;
    own_->Ask(index, to);
    if (own_->chunk(index) != nullptr) SendChunk(to, index, used_up);
  }
}

void OwnContribution::Release(engine::OpId op, bool settled_later) {
  if (!own_ || own_->op() != op) return;
  context_.port->CancelChunks(ChunkKind::kContribution, fragment_, own_->round());
  own_.reset();
  if (std::exchange(begun_, false) && !settled_later) DropOpen();
}

// The endpoint's open contribution counts nowhere. Workers may still be encoding it.
void OwnContribution::DropOpen() {
  if (!context_.endpoint->open(fragment_)) return;
  drop_when_encoded_ = encoding_ > 0;
  if (drop_when_encoded_) return;
  context_.endpoint->Drop(fragment_);
}

void OwnContribution::Settle(engine::OwnPart own, bool unchanged) {
  if (own == engine::OwnPart::kNone || !context_.endpoint->open(fragment_)) return;
  if (own == engine::OwnPart::kCounted && !unchanged && context_.endpoint->Encoded(fragment_)) {
    drop_when_encoded_ = false;
    context_.endpoint->Commit(fragment_);
  } else {
    DropOpen();
  }
}

const memory::SharedBuffer* OwnContribution::Find(engine::OpId op, engine::RoundNumber round,
                                                  uint32_t index) const {
  if (!own_ || own_->op() != op || own_->round() != round) return nullptr;
  return own_->chunk(index);
}

}  // namespace causeway::exchange
