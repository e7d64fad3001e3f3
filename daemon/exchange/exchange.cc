// Routing only.
#include "daemon/exchange/exchange.h"

#include <cassert>
#include <utility>

namespace causeway::exchange {

Exchange::Exchange(Context context) : context_(std::move(context)) {
  for (engine::FragmentId id = 0; id < context_.layout->fragments().size(); ++id) Append(id);
}

void Exchange::Append(engine::FragmentId id) {
  Fragment fragment;
  fragment.rounds = std::make_unique<FragmentExchange>(context_, id);
  fragment.state = std::make_unique<StateTransfer>(context_, id, fragment.rounds.get());
  fragments_.push_back(std::move(fragment));
}

bool Exchange::Quiet() const {
  for (engine::FragmentId id = 0; id < fragments_.size(); ++id) {
    const FragmentExchange& rounds = *fragments_[id].rounds;
    if (rounds.encoding() || rounds.committing() || rounds.replacing()) return false;
    if (context_.endpoint->open(id)) return false;
  }
  return true;
}

void Exchange::Grow(Context context, size_t kept) {
  assert(Quiet() && kept <= fragments_.size());
  context.reserve->Inherit(*context_.reserve);
  context.entropy = context_.entropy;
  fragments_.resize(kept);
  context_ = std::move(context);
  for (engine::FragmentId id = static_cast<engine::FragmentId>(kept);
       id < context_.layout->fragments().size(); ++id) {
    Append(id);
  }
}

void Exchange::OnEpoch(const engine::Record& record) {
  for (Fragment& fragment : fragments_) fragment.rounds->OnEpoch(record);
}

void Exchange::OnPlanKnown() {
  for (Fragment& fragment : fragments_) fragment.rounds->OnPlanKnown();
}

void Exchange::OnChunk(engine::ClusterId from, const ChunkAddress& address,
                       memory::Buffer payload) {
  if (address.fragment >= fragments_.size()) {
    context_.port->ReturnCredit(from, payload.size());
    return;
  }
  Fragment& fragment = fragments_[address.fragment];
  if (address.kind == ChunkKind::kState) {
    fragment.state->OnChunk(from, address, std::move(payload));
  } else {
    fragment.rounds->OnChunk(from, address, std::move(payload));
  }
}

void Exchange::OnChunkRequest(engine::ClusterId from, const ChunkRequest& request) {
  if (request.fragment < fragments_.size()) {
    fragments_[request.fragment].rounds->SendAgain(from, request);
  }
}

void Exchange::SendAgain(engine::ClusterId to, const ChunkAddress& address) {
  ChunkRequest request;
  request.kind = address.kind;
  request.fragment = address.fragment;
  request.round = address.round;
  request.indices = {address.index};
  OnChunkRequest(to, request);
}

void Exchange::OnStateChunkDone(engine::FragmentId fragment) {
  if (fragment < fragments_.size()) fragments_[fragment].state->OnChunkDone();
}

void Exchange::OnPeerUp(engine::ClusterId peer) {
  for (Fragment& fragment : fragments_) {
    fragment.state->OnPeerUp(peer);
    fragment.rounds->OnPeerUp(peer);
  }
}

void Exchange::OnPeerDown(engine::ClusterId peer) {
  for (Fragment& fragment : fragments_) fragment.state->OnPeerDown(peer);
}

std::shared_ptr<void> Exchange::HoldCommits() {
  for (Fragment& fragment : fragments_) fragment.rounds->HoldCommits();
  return std::shared_ptr<void>(nullptr, [this, alive = std::weak_ptr<bool>(alive_)](void*) {
    if (alive.expired()) return;
    for (Fragment& fragment : fragments_) fragment.rounds->AllowCommits();
  });
}

}  // namespace causeway::exchange
