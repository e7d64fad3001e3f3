// See committer.h.
#include "daemon/exchange/committer.h"

#include <cassert>
#include <utility>

namespace causeway::exchange {

Committer::Committer(const Context& context, engine::FragmentId fragment, Committed committed)
    : context_(context),
      fragment_(fragment),
      committed_(std::move(committed)),
      tasks_(context.workers, context.loop) {}

void Committer::Commit(const engine::Commit& action, std::shared_ptr<Reduction> reduction) {
  assert(!pending_ && reduction && reduction->held());
  assert(reduction->order().round == action.record.state.round);
  pending_ = Pending{action, std::move(reduction), false,
                     context_.layout->fragments().at(fragment_).chunks};
  if (holds_ == 0) Start();
}

void Committer::Allow() {
  assert(holds_ > 0);
  if (--holds_ > 0) return;
  if (pending_ && !pending_->started) Start();
  ReplaceNext();
}

void Committer::BeginReplacing(std::function<void()> ready) {
  replacements_.push_back(std::move(ready));
  ReplaceNext();
}

void Committer::ReplaceNext() {
  if (pending_ || replacing_now_ || holds_ > 0 || replacements_.empty()) return;
  const std::function<void()> ready = std::move(replacements_.front());
  replacements_.pop_front();
  replacing_now_ = true;
  Hold();
  ready();
}

void Committer::EndReplacing() {
  assert(replacing_now_);
  replacing_now_ = false;
  Allow();
}

void Committer::Start() {
  pending_->started = true;
  const engine::RoundNumber round = pending_->action.record.state.round;
  context_.outer->BeginRound(fragment_, round);
  const absl::Span<float> next = context_.endpoint->WritableValue(fragment_, round);
  // Gradient averaging has no previous value; its rule does not look at it.
  const absl::Span<const float> previous = context_.outer->rule(fragment_).HasOuterState()
                                               ? context_.endpoint->Value(fragment_, round - 1)
                                               : absl::Span<const float>(next);
  for (uint32_t index = 0; index < pending_->left; ++index) {
    const uint64_t first = uint64_t{index} * compression::kChunkElements;
    const uint32_t count = context_.layout->ChunkElements(fragment_, index);
    StepOnWorker(index, previous.subspan(first, count), next.subspan(first, count));
  }
}

void Committer::StepOnWorker(uint32_t index, absl::Span<const float> previous,
                             absl::Span<float> next) {
  tasks_.Run(
      [outer = context_.outer, endpoint = context_.endpoint, reduction = pending_->reduction,
       fragment = fragment_, index, previous, next] {
        if (reduction->unchanged()) {
          outer->CopyChunk(fragment, index, previous, next);
        } else {
          const auto* mean = reinterpret_cast<const float*>(reduction->chunk(index).mean.data());
          outer->StepChunk(fragment, index, previous, {mean, next.size()}, next);
        }
      },
      [this] {
        if (--pending_->left == 0) Finish();
      });
}

void Committer::Finish() {
  const Pending done = *std::exchange(pending_, std::nullopt);
  if (!done.reduction->unchanged()) context_.outer->EndRound(fragment_);
  context_.endpoint->Publish(fragment_, done.action.record.state.round);
  committed_(done.action, *done.reduction);
  ReplaceNext();
}

}  // namespace causeway::exchange
