// One modelled cluster: the real engine, a disk, a data plane without bytes, and a trainer.
//
// The data plane moves names of encoded contributions instead of bytes; a value is a 64-bit mix of
// what went into it, so bytes that would differ differ here too. The lanes' own reliability
// (resend, acknowledge) is modelled by repeating until the receiver has it.
#ifndef CAUSEWAY_TESTS_SIM_GATEWAY_H_
#define CAUSEWAY_TESTS_SIM_GATEWAY_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/engine/engine.h"
#include "daemon/engine/random.h"
#include "tests/sim/oracle.h"

namespace causeway::sim {

using engine::ClusterId;
using engine::FragmentId;
using engine::Time;
using Value = Oracle::Value;

// A contribution under way on a lane.
struct DataPacket {
  FragmentId fragment = 0;
  engine::RoundNumber round = 0;
  engine::Epoch epoch;
  engine::Incarnation incarnation = 0;  // of the contributor
  engine::OpId op;
  uint64_t encoded = 0;
};

// A state on its way to whoever asked.
struct StatePacket {
  FragmentId fragment = 0;
  engine::StateId state;
  Value value = 0;
  bool request = false;  // from the fetching side
  bool missing = false;  // the donor does not serve that state (any more)
};

struct Checkpoint {
  engine::StateId state;
  Value value = 0;
  uint64_t memory = 0;  // the residual with it
  uint64_t residual_of = 0;
  std::vector<engine::CommitRecord> records;
};

struct Disk {
  engine::Durable durable;
  std::map<FragmentId, Checkpoint> checkpoints;
};

// What the gateway asks of the world around it.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual void SendEnvelope(int from, engine::Send& send) = 0;  // takes what it carries
  virtual void SendData(int from, int to, const DataPacket& packet) = 0;
  virtual void SendState(int from, int to, const StatePacket& packet) = 0;
  virtual void AfterFsync(int node, engine::Incarnation incarnation,
                          const engine::Persist& persist) = 0;
  virtual void AfterCompute(int node, uint64_t session, FragmentId fragment) = 0;
  virtual void AfterReduce(int node, engine::Incarnation incarnation,
                           const engine::ResultHeld& held) = 0;
  virtual void AfterRefusal(int node) = 0;  // of its trainer, which has ended
  virtual bool Holds(int node, int from, const DataPacket& packet) = 0;
  virtual void Trace(int node, const std::string& text) = 0;
  virtual bool Tracing() const = 0;
  virtual bool OperatorApproves() = 0;
};

struct TrainerOp {
  engine::OpId op;
  engine::StateId base;
  engine::Weight weight = 0;
};

struct TrainerFragment {
  bool has_base = false;
  bool computing = false;
  bool base_here = false;  // the value of `base` lies in the memory of the gateway that runs now
  engine::StateId base;
  std::optional<TrainerOp> op;  // submitted and not answered
};

struct Trainer {
  bool grown = false;  // it comes with all tensors, where the run was founded with fewer
  bool alive = false;
  bool attached = false;  // to the gateway process that runs now
  uint64_t session = 0;
  std::vector<TrainerFragment> fragments;
};

class Gateway {
 public:
  // `founding` of the fragments are there from the founding on; the others once the run grows.
  Gateway(int id, engine::Config config, int fragments, int founding, Surroundings& world,
          Oracle& oracle, engine::Random& random);

  void Boot(Time now, engine::Incarnation incarnation);
  void Crash(bool disk_lost);
  // A gateway that is down gets a disk of earlier times.
  void PutBack(Disk disk) { disk_ = std::move(disk); }
  void StartTrainer(Time now, uint64_t session);
  void StopTrainer(Time now, bool died);
  void AttachTrainer(Time now);

  void Handle(Time now, const engine::Event& event);
  void OnData(Time now, int from, const DataPacket& packet);
  void OnState(Time now, int from, const StatePacket& packet);
  void OnFsynced(Time now, const engine::Persist& persist);
  void OnComputed(Time now, FragmentId fragment);
  // Lanes repeat what has not arrived.
  void RepeatData(Time now);
  bool Holds(int from, const DataPacket& packet) const;

  int id() const { return id_; }
  bool up() const { return engine_ != nullptr; }
  bool frozen = false;
  engine::Incarnation incarnation() const { return incarnation_; }
  engine::Engine& engine() { return *engine_; }
  const Disk& disk() const { return disk_; }
  Trainer& trainer() { return trainer_; }
  bool fatal() const { return fatal_; }
  std::string fatal_words() const { return fatal_words_; }
  // In memory, or where the gateway is down on its disk.
  bool Keeps(FragmentId id) const {
    return up() ? planes_[id].holds : disk_.checkpoints.count(id) > 0;
  }
  // The value that its trainer brings, by name.
  engine::Hash256 SeedOf(FragmentId id) const;
  bool holds(FragmentId id) const { return planes_[id].holds; }

 private:
  struct Retained {
    engine::OpId op;
    uint64_t encoded = 0;
  };
  struct Outgoing {
    int to = 0;
    DataPacket packet;
  };
  using SlotKey = std::tuple<engine::RoundNumber, engine::Epoch, int>;  // round, epoch, sender
  struct Plane {
    bool holds = false;
    engine::StateId state;
    Value value = 0;
    uint64_t memory = 0;
    uint64_t residual_of = 0;
    std::optional<Retained> retained;
    std::map<SlotKey, DataPacket> slots;
    std::optional<engine::Reduce> reduce;
    bool reduced = false;
    struct Result {
      engine::Reduce reduce;
      std::vector<uint64_t> parts;
      engine::Hash256 hash{};
    };
    std::vector<Result> results;  // held until decided; the newest few
    std::vector<Outgoing> outgoing;
    std::optional<engine::FetchState> fetching;
    int repeats_left = 0;  // of requests, once a donor does not hold it any more
    std::optional<StatePacket> staged;
  };

  void Perform(Time now);
  void RequestState(const Plane& plane);
  void FailFetch(Time now, Plane* plane);
  void Do(Time, const engine::Send&) {}  // on their way already (Perform)
  void Do(Time now, const engine::Persist& action);
  void Do(Time now, const engine::StartContribution& action);
  void Do(Time now, const engine::ResendContribution& action);
  void Do(Time now, const engine::Reduce& action);
  void Do(Time now, const engine::Commit& action);
  void Do(Time now, const engine::DropAttempts& action);
  void Do(Time now, const engine::ReleaseRetained& action);
  void Do(Time now, const engine::FetchState& action);
  void Do(Time now, const engine::AdoptState& action);
  void Do(Time now, const engine::RolledBack& action);
  void Do(Time now, const engine::OpChanged& action);
  void Do(Time now, const engine::EpochInstalled& action);
  void Do(Time, const engine::RunFormed&) {}
  void Do(Time, const engine::Fenced&) {}
  void Do(Time now, const engine::Fatal& action);
  void Do(Time now, const engine::RollbackNeeded& action);
  void Do(Time, const engine::PlanKnown&) {}
  void Do(Time now, const engine::JoinRefused& action);
  void Do(Time, const engine::ForeignRun&) {}
  void Do(Time, const engine::Note&) {}

  void Contribute(const DataPacket& packet, engine::ClusterSet to);
  void TryReduce(FragmentId fragment);
  void ForgetResidual(Plane& plane);
  void Settle(Plane& plane, engine::OwnPart own, engine::OpId op);
  bool MayBegin(FragmentId fragment) const;
  void Deliver(FragmentId fragment);
  void CheckSlot(FragmentId fragment, const engine::StateId& state) const;
  void SaveCheckpoint(FragmentId fragment);
  engine::Hash256 StateHash(const Plane& plane) const;

  int id_;
  engine::Config config_;
  Surroundings& world_;
  Oracle& oracle_;
  engine::Random& random_;
  Disk disk_;
  engine::Incarnation incarnation_ = 0;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<Plane> planes_;
  const size_t founding_;
  Trainer trainer_;
  bool fatal_ = false;
  std::string fatal_words_;
  std::vector<engine::Action> taken_;
  std::vector<engine::Action> pending_;  // being performed
  bool performing_ = false;
  uint64_t memories_ = 0;
  uint64_t operations_ = 0;
  Time now_ = 0;
};

// A cheap 256-bit mix for the simulator's engines. Not for secrets.
engine::Hash256 MixHash(std::span<const uint8_t> bytes);

}  // namespace causeway::sim

#endif  // CAUSEWAY_TESTS_SIM_GATEWAY_H_
