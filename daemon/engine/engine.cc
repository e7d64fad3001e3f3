// The facade: its only work is to answer questions from the parts' state.
#include "daemon/engine/engine.h"

#include <cassert>
#include <utility>

#include "daemon/engine/core.h"

namespace causeway::engine {

Engine::Engine(Config config, Durable durable, uint64_t random_seed)
    : core_(std::make_unique<Core>(std::move(config), std::move(durable), random_seed)) {}

Engine::~Engine() = default;

void Engine::Handle(Time now, const Event& event) { core_->Handle(now, event); }

std::vector<Action> Engine::TakeActions() {
  std::vector<Action> out;
  core_->TakeActions(&out);
  return out;
}

void Engine::TakeActions(std::vector<Action>* out) { core_->TakeActions(out); }

Time Engine::NextTimer() const { return core_->NextTimer(); }

Status Engine::Snapshot() const { return core_->Snapshot(); }

std::optional<OpChanged> Engine::FindOperation(FragmentId fragment, OpId op) const {
  return core_->ledger().Find(fragment, op);
}

const std::vector<CommitRecord>& Engine::Records(FragmentId fragment) const {
  assert(fragment < core_->ledger().size());
  return core_->ledger()[fragment].records;
}

Kept Engine::CountKept() const { return core_->CountKept(); }

uint64_t Engine::messages_dropped() const { return core_->messages_dropped(); }

}  // namespace causeway::engine
