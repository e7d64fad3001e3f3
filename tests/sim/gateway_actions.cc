// The data plane without bytes: what the engine asks for, done at once or handed to the world.
#include <cassert>
#include <cstring>
#include <utility>

#include "tests/sim/gateway.h"

namespace causeway::sim {
namespace {

Value Mix(Value a, Value b) {
  uint64_t z = a * 0x9E3779B97F4A7C15ull + b + 1;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  return z ^ (z >> 31);
}

engine::Hash256 HashOf(Value value) {
  engine::Hash256 hash{};
  std::memcpy(hash.data(), &value, sizeof value);
  hash[31] = 1;
  return hash;
}

constexpr size_t kResultsKept = 4;
constexpr size_t kActionsMax = 20'000;

}  // namespace

void Gateway::Perform(Time now) {
  engine_->TakeActions(&taken_);
  if (pending_.empty()) {
    pending_.swap(taken_);
  } else {
    for (engine::Action& action : taken_) pending_.push_back(std::move(action));
  }
  if (pending_.size() > kActionsMax) throw Violation("UNBOUNDED: actions of one event");
  if (performing_) return;  // an action led to an event: its actions come after those before it
  performing_ = true;
  for (size_t at = 0; at < pending_.size(); ++at) {
    if (auto* send = std::get_if<engine::Send>(&pending_[at])) {
      world_.SendEnvelope(id_, *send);
      continue;
    }
    const engine::Action action = std::move(pending_[at]);
    if (world_.Tracing()) {
      world_.Trace(id_, engine::Describe(action));
    }
    std::visit([this, now](const auto& body) { Do(now, body); }, action);
  }
  pending_.clear();
  performing_ = false;
}

void Gateway::Do(Time, const engine::Persist& action) {
  world_.AfterFsync(id_, incarnation_, action);
}

void Gateway::Contribute(const DataPacket& packet, engine::ClusterSet to) {
  Plane& plane = planes_[packet.fragment];
  plane.slots[{packet.round, packet.epoch, id_}] = packet;
  for (ClusterId peer : to) {
    plane.outgoing.push_back({peer, packet});
    world_.SendData(id_, peer, packet);
  }
  TryReduce(packet.fragment);
}

void Gateway::Do(Time, const engine::StartContribution& action) {
  Plane& plane = planes_[action.fragment];
  if (plane.retained) throw Violation("RETAINED: a second encoding while the first is kept");
  const uint64_t encoded = oracle_.Encode({id_, action.op, plane.memory, plane.residual_of});
  plane.retained = Retained{action.op, encoded};
  Contribute({action.fragment, action.round, action.epoch, incarnation_, action.op, encoded},
             action.to);
}

void Gateway::Do(Time, const engine::ResendContribution& action) {
  Plane& plane = planes_[action.fragment];
  if (!plane.retained || plane.retained->op != action.op) {
    throw Violation("RETAINED: the bytes to resend are not kept");
  }
  Contribute({action.fragment, action.round, action.epoch, incarnation_, action.op,
              plane.retained->encoded},
             action.to);
}

void Gateway::Do(Time, const engine::Reduce& action) {
  Plane& plane = planes_[action.fragment];
  if (action.attempt > 2 * static_cast<engine::Attempt>(config_.clusters)) {
    throw Violation("UNBOUNDED: attempts of a round");
  }
  plane.reduce = action;
  plane.reduced = false;
  TryReduce(action.fragment);
}

// Everything the reduction names is here: combine it in name order.
void Gateway::TryReduce(FragmentId id) {
  Plane& plane = planes_[id];
  if (!plane.reduce || plane.reduced) return;
  const engine::Reduce& reduce = *plane.reduce;
  Plane::Result result{reduce, {}, {}};
  Value sum = 0;
  for (const engine::Contributor& part : reduce.contributors) {
    const auto slot = plane.slots.find({reduce.round, reduce.epoch, part.cluster});
    if (slot == plane.slots.end() || slot->second.incarnation != part.incarnation) return;
    if (slot->second.op != part.op) return;
    result.parts.push_back(slot->second.encoded);
    sum = Mix(Mix(sum, slot->second.encoded), part.weight);
  }
  plane.reduced = true;
  result.hash = HashOf(sum);
  plane.results.push_back(result);
  if (plane.results.size() > kResultsKept) plane.results.erase(plane.results.begin());
  world_.AfterReduce(
      id_, incarnation_,
      {id, reduce.round, reduce.epoch, reduce.attempt, result.hash, StateHash(plane)});
}

void Gateway::ForgetResidual(Plane& plane) {
  plane.residual_of = 0;
  plane.memory = ++memories_ + incarnation_ * 1000;
}

void Gateway::Settle(Plane& plane, engine::OwnPart own, engine::OpId op) {
  if (own == engine::OwnPart::kNone) return;
  if (!plane.retained || plane.retained->op != op) {
    throw Violation("RETAINED: a contribution that is decided is not kept");
  }
  if (own == engine::OwnPart::kCounted) plane.residual_of = plane.retained->encoded;
  plane.retained.reset();
}

// The new value takes the place of the one before last, which the trainer may not stand on any
// more.
void Gateway::CheckSlot(FragmentId id, const engine::StateId& state) const {
  const TrainerFragment& fragment = trainer_.fragments[id];
  if (!trainer_.attached || !fragment.base_here || fragment.base.lineage != state.lineage) return;
  if (fragment.base.round < state.round - 1) {
    throw Violation("SLOT: the value that the trainer stands on is overwritten");
  }
}

void Gateway::Do(Time now, const engine::Commit& action) {
  const engine::CommitRecord& record = action.record;
  Plane& plane = planes_[record.fragment];
  CheckSlot(record.fragment, record.state);
  const Plane::Result* result = nullptr;
  for (const Plane::Result& held : plane.results) {
    if (held.reduce.round == record.state.round && held.reduce.epoch == record.epoch &&
        held.reduce.attempt == record.attempt) {
      result = &held;
    }
  }
  if (!result || result->hash != record.result) {
    throw Violation("BYTES: a commit whose result is not held");
  }
  plane.value = record.contributors.empty()
                    ? plane.value
                    : Mix(plane.value, Mix(5, result->hash[0] + 256u * result->hash[1] +
                                                  65536u * result->hash[2]));
  plane.state = record.state;
  oracle_.Committed(id_, record, plane.value, result->parts);
  Settle(plane, action.own, action.own_op);
  plane.results.clear();
  plane.reduce.reset();
  for (auto slot = plane.slots.begin(); slot != plane.slots.end();) {
    slot =
        std::get<0>(slot->first) <= record.state.round ? plane.slots.erase(slot) : std::next(slot);
  }
  if (random_.Chance(0.3)) SaveCheckpoint(record.fragment);
  (void)now;
  Deliver(record.fragment);
}

void Gateway::Do(Time, const engine::DropAttempts& action) {
  Plane& plane = planes_[action.fragment];
  std::erase_if(plane.results, [&](const Plane::Result& held) {
    return held.reduce.round == action.round && held.reduce.epoch == action.epoch &&
           held.reduce.attempt <= action.attempt;
  });
}

void Gateway::Do(Time, const engine::ReleaseRetained& action) {
  Plane& plane = planes_[action.fragment];
  if (!plane.retained || plane.retained->op != action.op) {
    throw Violation("RETAINED: released twice");
  }
  plane.retained.reset();
}

void Gateway::Do(Time, const engine::FetchState& action) {
  planes_[action.fragment].fetching = action;
  planes_[action.fragment].repeats_left = 0;
  RequestState(planes_[action.fragment]);
}

void Gateway::Do(Time, const engine::AdoptState& action) {
  Plane& plane = planes_[action.fragment];
  if (action.from_trainer) {
    plane.value = 1000 + action.fragment;
  } else {
    if (!plane.staged || !(plane.staged->state == action.state)) {
      throw Violation("STATE: adopts what is not staged");
    }
    plane.value = plane.staged->value;
  }
  plane.staged.reset();
  plane.holds = true;
  plane.state = action.state;
  oracle_.Adopted(id_, action.fragment, action.state, plane.value);
  Settle(plane, action.own, action.own_op);
  if (!action.forward) ForgetResidual(plane);
  plane.reduce.reset();
  plane.results.clear();
  if (random_.Chance(0.5)) SaveCheckpoint(action.fragment);
  Deliver(action.fragment);
}

void Gateway::Do(Time, const engine::RolledBack& action) {
  Plane& plane = planes_[action.fragment];
  ForgetResidual(plane);
  if (action.holds) plane.state = action.to;
  Deliver(action.fragment);
}

void Gateway::Do(Time, const engine::OpChanged& action) {
  const bool answered =
      action.state == engine::OpState::kCommitted || action.state == engine::OpState::kExcluded ||
      action.state == engine::OpState::kFailed || action.state == engine::OpState::kRebase;
  if (!answered) return;
  oracle_.Told(id_, action.fragment, action.op, action.state, planes_[action.fragment].state);
  TrainerFragment& fragment = trainer_.fragments[action.fragment];
  if (!fragment.op || fragment.op->op != action.op) return;
  fragment.op.reset();
  Deliver(action.fragment);
}

void Gateway::Do(Time, const engine::EpochInstalled& action) {
  oracle_.Installed(id_, action.record);
  if (planes_.size() == founding_) return;
  for (FragmentId id = 0; id < planes_.size(); ++id) Deliver(id);
}

// Its tensors are others than the run's, or than those of the trainers that it would found one
// with.
void Gateway::Do(Time now, const engine::JoinRefused& action) {
  if (!trainer_.alive || trainer_.session != action.session) return;
  trainer_.alive = trainer_.attached = false;
  world_.AfterRefusal(id_);
  Handle(now, engine::TrainerGone{action.session, true});
}

void Gateway::Do(Time, const engine::Fatal& action) {
  fatal_ = true;
  fatal_words_ = engine::Describe(engine::Action(action));
}

void Gateway::Do(Time now, const engine::RollbackNeeded&) {
  if (config_.rollback != engine::RollbackPolicy::kAuto && world_.OperatorApproves()) {
    Handle(now, engine::ApproveRollback{});
  }
}

}  // namespace causeway::sim
