// A whole run in one process: gateways, links, time, faults, and the checks of the oracle.
//
// Deterministic: a seed and a commit reproduce a run exactly. Time is simulated microseconds.
#ifndef CAUSEWAY_TESTS_SIM_WORLD_H_
#define CAUSEWAY_TESTS_SIM_WORLD_H_

#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <variant>
#include <vector>

#include "tests/sim/gateway.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"

namespace causeway::sim {

inline constexpr Time kTick = 10'000;  // the grain of delays and faults
inline constexpr Time kPeerTimeout = 70 * kTick;

// What else may go wrong in a random run than links, deaths and pauses. Bits.
enum Profile : int {
  kDisksLost = 1,  // often
  kVotersChange = 2,
  kClocksJump = 4,  // forward, as monotonic clocks may
  kHostile = 8,     // one member names numbers that no run reaches
  kProfiles = 16,
};

struct WorldOptions {
  uint64_t seed = 0;
  int clusters = 0;            // 0: from the seed, 2 to 5
  bool trace = false;          // print the history
  bool scripted = false;       // no random faults: a script drives
  std::optional<int> profile;  // nullopt: from the seed
  int primary = -1;            // scripted only
  int fragments = 0;           // 0: from the seed, 1 to 3
  int grows_by = 0;            // fragments that the run gets while it goes on
  engine::RollbackPolicy rollback = engine::RollbackPolicy::kAuto;  // scripted only
  Time grace = 0;  // scripted only: stragglers have a deadline
#ifdef CAUSEWAY_ENGINE_FAULTS
  std::bitset<static_cast<size_t>(engine::PlantedFault::kCount)> faults;
#endif
};

struct Outcome {
  std::string violation;  // empty: none
  bool blocked = false;   // what was lost can, by design, not be made good
  Time recovery = 0;      // from the end of faults until the run was whole again
  OracleCounts counts;
  uint64_t events = 0;
  uint64_t crashes = 0;
};

class World : public Surroundings {
 public:
  explicit World(const WorldOptions& options);
  ~World() override;

  // Random faults, then peace, then proof of progress.
  Outcome Run();

  // For scripts: time passes, then the script looks and acts.
  void Pass(Time duration);
  void CutLink(int a, int b, bool cut);
  void CrashNode(int node, bool disk_lost);
  void RestartNode(int node);
  // All gateways are down and have lost their disks: what follows is another run.
  void BeginAnew();
  void KillTrainer(int node);
  void StartTrainer(int node);
  void GrowTrainer(int node);
  void Freeze(int node);
  void Thaw(int node);
  void Tell(int node, const engine::Event& event);
  bool approves = true;  // scripts: rollbacks, when asked
  int slow_node = -1;    // scripts: whose trainer needs long for its steps
  Time state_delay = 0;  // scripts: what a state needs beyond the way of a message
  // Scripts: messages for which this is true are lost.
  std::function<bool(int from, int to, const engine::Message& message)> loses;
  const Gateway& node(int id) const { return *nodes_[static_cast<size_t>(id)]; }
  Gateway& node(int id) { return *nodes_[static_cast<size_t>(id)]; }
  const Oracle& oracle() const { return oracle_; }
  Time now() const { return now_; }
  int clusters() const { return clusters_; }
  engine::Status StatusOf(int node) {
    return nodes_[static_cast<size_t>(node)]->engine().Snapshot();
  }
  // `from` says something that its engine did not say.
  void Forge(int from, int to, const engine::Epoch& epoch, engine::Message message);
  void JumpClock(int node, Time by);
  Network& network() { return network_; }
  engine::Random& random() { return random_; }

  void SendEnvelope(int from, engine::Send& send) override;
  void SendData(int from, int to, const DataPacket& packet) override;
  void SendState(int from, int to, const StatePacket& packet) override;
  void AfterFsync(int node, engine::Incarnation incarnation,
                  const engine::Persist& persist) override;
  void AfterCompute(int node, uint64_t session, FragmentId fragment) override;
  void AfterReduce(int node, engine::Incarnation incarnation,
                   const engine::ResultHeld& held) override;
  void AfterRefusal(int node) override;
  bool Holds(int node, int from, const DataPacket& packet) override;
  void Trace(int node, const std::string& text) override;
  bool Tracing() const override { return options_.trace; }
  bool OperatorApproves() override {
    return options_.scripted ? approves : peace_ || random_.Chance(0.5);
  }

 private:
  struct Arrive {
    engine::Event received;
  };
  struct DataArrives {
    int from;
    DataPacket packet;
  };
  struct StateArrives {
    int from;
    StatePacket packet;
  };
  struct Fsynced {
    engine::Incarnation incarnation;
    engine::Persist persist;
  };
  struct Computed {
    uint64_t session;
    FragmentId fragment;
  };
  struct Reduced {
    engine::Incarnation incarnation;
    engine::ResultHeld held;
  };
  struct TimerDue {
    uint64_t generation;
  };
  struct LaneTick {};
  struct Restart {};
  struct HealLink {
    int other;
    bool both;
  };
  struct HealAll {};
  struct ThawNode {};
  struct TrainerReturns {};
  struct TrainerAttaches {
    engine::Incarnation incarnation;
    uint64_t session;
  };
  struct FaultDue {};
  struct GrowthDue {};
  struct ForgeryDue {};
  using Happening = std::variant<Arrive, DataArrives, StateArrives, Fsynced, Computed, Reduced,
                                 TimerDue, LaneTick, Restart, HealLink, HealAll, ThawNode,
                                 TrainerReturns, TrainerAttaches, FaultDue, ForgeryDue, GrowthDue>;
  // Ordered by when it is due, then by when it was scheduled: one number, compared at once.
  struct Item {
    uint64_t key;
    uint32_t slot;
    int node;
    Time at() const { return static_cast<Time>(key >> kOrderBits); }
    bool operator<(const Item& other) const { return key > other.key; }
  };
  static constexpr int kOrderBits = 26;  // 67 million

  // Puts a thing to happen into the queue. Its place stays where it is until it has happened.
  template <typename What>
  void Schedule(Time delay, int node, What what) {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.push_back(std::make_unique<Happening>());
    }
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    *slots_[slot] = std::move(what);
    if (order_ >> kOrderBits != 0) throw Violation("RUNAWAY: too much is scheduled");
    queue_.push({static_cast<uint64_t>(now_ + delay) << kOrderBits | order_++, slot, node});
  }
  bool Step(Time until);  // false: nothing left before `until`
  void Happen(int node, Happening& what);
  void TraceArrival(int node, const engine::Received& received);
  void ArmTimer(int node);
  void Say(const std::string& text);
  void CheckFatal(int node);
  Time Clock(int node) const { return now_ + clocks_[static_cast<size_t>(node)]; }
  void CheckBounds(int node);
  // faults.cc
  void Fault();
  void Isolate(int node);
  void Partition();
  void ChangeVoters();
  // hostile.cc
  void ForgeAnything();
  // peace.cc
  void Peace();
  bool Recoverable(engine::ClusterSet up) const;
  void GrowTrainers();
  bool Seeded(const engine::Record& record, FragmentId fragment, engine::ClusterSet up,
              bool any_kept) const;
  bool HeldByAnyone() const;
  void LetGoOn();
  bool Whole();
  std::string WhyNotWhole();

  WorldOptions options_;
  engine::Random random_;
  int clusters_;
  int fragments_;  // with those that it grows by
  int profile_ = 0;
  Network network_;
  Oracle oracle_;
  std::vector<std::unique_ptr<Gateway>> nodes_;
  std::vector<std::vector<std::pair<int, Happening>>> frozen_;
  std::vector<uint64_t> timer_generation_;
  std::vector<Time> timer_at_;
  std::vector<Time> clocks_;  // by node: ahead of the world's
  std::priority_queue<Item> queue_;
  std::vector<std::unique_ptr<Happening>> slots_;
  std::vector<uint32_t> free_slots_;
  uint64_t order_ = 0;
  Time now_ = 0;
  bool peace_ = false;
  engine::ClusterSet stays_down_;
  engine::Incarnation incarnations_ = 0;
  uint64_t sessions_ = 0;
  Time fault_pace_ = 0;
  double disk_loss_ = 0;
  int hostile_ = -1;
  // Liveness probe.
  Time peace_at_ = 0;
  std::optional<engine::Epoch> whole_epoch_;
  std::vector<engine::RoundNumber> whole_rounds_;
  Outcome outcome_;
};

}  // namespace causeway::sim

#endif  // CAUSEWAY_TESTS_SIM_WORLD_H_
