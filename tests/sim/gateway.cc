// Life of a modelled gateway and its trainer. What the engine asks for is in gateway_actions.cc.
#include "tests/sim/gateway.h"

#include <cstring>
#include <utility>

#include "daemon/engine/chain.h"

namespace causeway::sim {

engine::Hash256 MixHash(std::span<const uint8_t> bytes) {
  uint64_t lanes[4] = {1, 2, 3, 4};
  uint64_t word = 0;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t size = bytes.size() - at < 8 ? bytes.size() - at : 8;
    word = size;
    std::memcpy(&word, bytes.data() + at, size);
    for (uint64_t& lane : lanes) {
      lane = (lane ^ word) * 0xBF58476D1CE4E5B9ull;
      lane ^= lane >> 29;
      word += 0x9E3779B97F4A7C15ull;
    }
    at += size;
  }
  engine::Hash256 out;
  std::memcpy(out.data(), lanes, sizeof lanes);
  return out;
}

namespace {

constexpr int kRepeatsMax = 20;  // of what is asked of donors that may be gone

engine::Hash256 SmallHash(std::initializer_list<uint64_t> words) {
  return MixHash({reinterpret_cast<const uint8_t*>(words.begin()), words.size() * 8});
}

// The trainers of 0 and 2 come with the same.
engine::Hash256 ParametersOf(int id) {
  return SmallHash({3, static_cast<uint64_t>(id == 2 ? 0 : id)});
}

}  // namespace

Gateway::Gateway(int id, engine::Config config, int fragments, int founding, Surroundings& world,
                 Oracle& oracle, engine::Random& random)
    : id_(id),
      config_(std::move(config)),
      world_(world),
      oracle_(oracle),
      random_(random),
      planes_(static_cast<size_t>(fragments)),
      founding_(static_cast<size_t>(founding)) {
  trainer_.fragments.resize(static_cast<size_t>(fragments));
}

engine::Hash256 Gateway::StateHash(const Plane& plane) const { return SmallHash({7, plane.value}); }

engine::Hash256 Gateway::SeedOf(FragmentId id) const {
  return engine::SeedChain(config_, ParametersOf(id_), id);
}

void Gateway::Boot(Time now, engine::Incarnation incarnation) {
  incarnation_ = incarnation;
  frozen = false;
  fatal_ = false;
  engine::Config config = config_;
  config.incarnation = incarnation;
  config.founding = engine::Random(incarnation).Next() | 1;
  engine_ = std::make_unique<engine::Engine>(config, disk_.durable, random_.Next());
  engine::Start start;
  for (size_t id = 0; id < planes_.size(); ++id) {
    Plane plane;
    plane.memory = ++memories_ + incarnation * 1000;
    const auto saved = disk_.checkpoints.find(static_cast<FragmentId>(id));
    if (saved != disk_.checkpoints.end()) {
      plane.holds = true;
      plane.state = saved->second.state;
      plane.value = saved->second.value;
      plane.memory = saved->second.memory;
      plane.residual_of = saved->second.residual_of;
      start.held.push_back({saved->first, saved->second.state, saved->second.records});
    }
    planes_[id] = std::move(plane);
  }
  trainer_.attached = false;
  Handle(now, start);
}

void Gateway::Crash(bool disk_lost) {
  engine_.reset();
  frozen = false;
  trainer_.attached = false;
  for (TrainerFragment& fragment : trainer_.fragments) fragment.base_here = false;
  if (disk_lost) disk_ = Disk();
}

void Gateway::StartTrainer(Time now, uint64_t session) {
  trainer_.alive = true;
  trainer_.session = session;
  for (TrainerFragment& fragment : trainer_.fragments) fragment = TrainerFragment();
  if (up()) AttachTrainer(now);
}

void Gateway::StopTrainer(Time now, bool died) {
  trainer_.alive = false;
  const bool told = trainer_.attached && up();
  trainer_.attached = false;
  if (told) Handle(now, engine::TrainerGone{trainer_.session, died});
}

// A fresh trainer takes the run's values; one that outlived its gateway asks what became of its
// operations and submits again only those that nobody knows.
void Gateway::AttachTrainer(Time now) {
  trainer_.attached = true;
  engine::TrainerJoined join;
  join.session = trainer_.session;
  const size_t fragments = trainer_.grown ? planes_.size() : founding_;
  join.schema = SmallHash({1, fragments});
  join.algorithm = SmallHash({2});
  join.fragments = static_cast<uint32_t>(fragments);
  if (fragments > founding_) {
    join.extends = {{SmallHash({1, founding_}), static_cast<uint32_t>(founding_)}};
  }
  join.has_parameters = true;
  join.parameters = ParametersOf(id_);
  Handle(now, join);
  for (FragmentId id = 0; id < planes_.size(); ++id) {
    TrainerFragment& fragment = trainer_.fragments[id];
    if (!trainer_.attached || !fragment.op) {
      Deliver(id);
      continue;
    }
    const TrainerOp op = *fragment.op;
    const auto known = engine_->FindOperation(id, op.op);
    if (known) {
      Do(now, *known);
    } else {
      Handle(now, engine::Submit{id, op.base, op.weight, op.op});
    }
  }
}

void Gateway::Handle(Time now, const engine::Event& event) {
  now_ = now;
  engine_->Handle(now, event);
  Perform(now);
}

void Gateway::OnData(Time now, int from, const DataPacket& packet) {
  Plane& plane = planes_[packet.fragment];
  Handle(now, engine::Progress{static_cast<ClusterId>(from), packet.incarnation});
  // Credits: nothing is kept for rounds long decided.
  if (plane.holds && packet.round <= plane.state.round && plane.slots.size() > 64) return;
  plane.slots[{packet.round, packet.epoch, from}] = packet;
  TryReduce(packet.fragment);
}

bool Gateway::Holds(int from, const DataPacket& packet) const {
  const Plane& plane = planes_[packet.fragment];
  return plane.slots.count({packet.round, packet.epoch, from}) > 0;
}

void Gateway::RepeatData(Time now) {
  for (Plane& plane : planes_) {
    std::vector<Outgoing> rest;
    for (Outgoing& out : plane.outgoing) {
      if (plane.holds && out.packet.round + 1 < plane.state.round) continue;
      if (world_.Holds(out.to, id_, out.packet)) continue;
      world_.SendData(id_, out.to, out.packet);
      rest.push_back(out);
    }
    plane.outgoing = std::move(rest);
    if (!plane.fetching) continue;
    if (plane.repeats_left > 0 && --plane.repeats_left == 0) {
      FailFetch(now, &plane);
    } else {
      RequestState(plane);
    }
  }
}

void Gateway::RequestState(const Plane& plane) {
  for (ClusterId donor : plane.fetching->donors) {
    world_.SendState(id_, donor, {plane.fetching->fragment, plane.fetching->state, 0, true, false});
  }
}

void Gateway::FailFetch(Time now, Plane* plane) {
  const engine::FetchState failed = *std::exchange(plane->fetching, std::nullopt);
  Handle(now, engine::StateFailed{failed.fragment, failed.state});
}

void Gateway::OnState(Time now, int from, const StatePacket& packet) {
  Plane& plane = planes_[packet.fragment];
  if (packet.request) {
    const bool here = plane.holds && plane.state == packet.state;
    world_.SendState(id_, from,
                     {packet.fragment, packet.state, here ? plane.value : 0, false, !here});
    return;
  }
  if (plane.fetching && plane.fetching->state == packet.state && packet.missing) {
    plane.fetching->donors.Erase(static_cast<ClusterId>(from));
    if (plane.repeats_left == 0) plane.repeats_left = kRepeatsMax;
    if (plane.fetching->donors.Empty()) FailFetch(now, &plane);
    return;
  }
  if (!plane.fetching || !(plane.fetching->state == packet.state)) return;
  plane.staged = packet;
  plane.fetching.reset();
  Handle(now, engine::StateHeld{packet.fragment, packet.state});
}

void Gateway::OnFsynced(Time now, const engine::Persist& persist) {
  disk_.durable = persist.durable;
  Handle(now, engine::Persisted{persist.token});
}

void Gateway::OnComputed(Time now, FragmentId id) {
  TrainerFragment& fragment = trainer_.fragments[id];
  fragment.computing = false;
  if (!trainer_.attached || !fragment.has_base || fragment.op) return;
  const engine::OpId op{trainer_.session, ++operations_};
  fragment.op = TrainerOp{op, fragment.base, random_.Below(10)};
  engine::StateId base = fragment.base;
  if (random_.Chance(0.3)) base.chain = {};  // a trainer need not know it
  Handle(now, engine::Submit{id, base, fragment.op->weight, op});
}

// One that came with more tensors than the run has waits for it to grow.
bool Gateway::MayBegin(FragmentId id) const {
  if (planes_.size() == founding_) return true;
  const std::optional<engine::Record> record = engine_->Snapshot().record;
  const size_t fragments = trainer_.grown ? planes_.size() : founding_;
  return record && record->base.size() == fragments && id < fragments;
}

// The trainer takes the committed value, unless it is still busy with an operation.
void Gateway::Deliver(FragmentId id) {
  TrainerFragment& fragment = trainer_.fragments[id];
  const Plane& plane = planes_[id];
  if (!trainer_.alive || !trainer_.attached || !plane.holds || fragment.op) return;
  if (!MayBegin(id)) return;
  // Sometimes it goes on from an older value: the engine must exclude that, not confuse it.
  if (fragment.has_base && fragment.computing && random_.Chance(0.3)) return;
  fragment.has_base = fragment.base_here = true;
  fragment.base = plane.state;
  Handle(now_, engine::TrainerApplied{id, plane.state.round});
  if (fragment.computing) return;
  fragment.computing = true;
  world_.AfterCompute(id_, trainer_.session, id);
}

void Gateway::SaveCheckpoint(FragmentId id) {
  const Plane& plane = planes_[id];
  disk_.checkpoints[id] = {plane.state, plane.value, plane.memory, plane.residual_of,
                           engine_->Records(id)};
}

}  // namespace causeway::sim
