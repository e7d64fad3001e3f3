// Routing only.
#include "daemon/exchange/exchange.h"

#include <utility>

namespace causeway::exchange {

Exchange::Exchange(const Context& context) : port_(context.port) {
  for (engine::FragmentId id = 0; id < context.layout->fragments().size(); ++id) {
    Fragment fragment;
    fragment.rounds = std::make_unique<FragmentExchange>(context, id);
    fragment.state = std::make_unique<StateTransfer>(context, id, fragment.rounds.get());
    fragments_.push_back(std::move(fragment));
  }
}

void Exchange::OnEpoch(engine::Epoch epoch) {
  for (Fragment& fragment : fragments_) fragment.rounds->DropEpochsBelow(epoch);
}

void Exchange::OnChunk(engine::ClusterId from, const ChunkAddress& address,
                       memory::Buffer payload) {
  if (address.fragment >= fragments_.size()) {
    port_->ReturnCredit(from, payload.size());
    return;
  }
  Fragment& fragment = fragments_[address.fragment];
  if (address.kind == ChunkKind::kState) {
    fragment.state->OnChunk(from, address, std::move(payload));
  } else if (address.kind == ChunkKind::kContribution) {
    fragment.rounds->OnChunk(from, address, std::move(payload));
  } else {
    port_->ReturnCredit(from, payload.size());
  }
}

void Exchange::OnPeerUp(engine::ClusterId peer) {
  for (Fragment& fragment : fragments_) fragment.state->OnPeerUp(peer);
}

std::shared_ptr<void> Exchange::HoldCommits() {
  for (Fragment& fragment : fragments_) fragment.rounds->HoldCommits();
  return std::shared_ptr<void>(nullptr, [this, alive = std::weak_ptr<bool>(alive_)](void*) {
    if (alive.expired()) return;
    for (Fragment& fragment : fragments_) fragment.rounds->AllowCommits();
  });
}

void Exchange::OnPeerDown(engine::ClusterId peer) {
  for (Fragment& fragment : fragments_) fragment.state->OnPeerDown(peer);
}

}  // namespace causeway::exchange
