// What the parts of the engine share: configuration, time, durable and volatile standing in the
// run, peers, and the way out for actions. Confined to the engine.
#ifndef CAUSEWAY_DAEMON_ENGINE_CONTEXT_H_
#define CAUSEWAY_DAEMON_ENGINE_CONTEXT_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/engine/config.h"
#include "daemon/engine/horizon.h"
#include "daemon/engine/peers.h"
#include "daemon/engine/random.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

// The local trainer, as far as rounds care.
struct TrainerSeat {
  bool present = false;
  uint64_t session = 0;
  Time absent_since = 0;
  bool ever_present = false;  // in this process
  Hash256 schema{};
  Hash256 algorithm{};
  uint32_t fragments = 0;
  std::vector<SchemaId> extends;
  bool has_parameters = false;
  Hash256 parameters{};

  // It came with this schema and more.
  bool Extends(const SchemaId& schema) const {
    return std::find(extends.begin(), extends.end(), schema) != extends.end();
  }
};

class Context {
 public:
  Context(Config config, Durable durable, uint64_t random_seed);

  const Config config;
  Time now = 0;
  Random random;
  PeerTable peers;
  TrainerSeat trainer;

  Durable durable;
  bool kept_memory = false;  // accepted the record in this process's life
  bool installed = false;    // and knows that all its members did
  bool frozen = false;       // promised since the last INSTALLED: what was reported stays as it is
  bool stopped = false;      // after Fatal
  bool leaving = false;
  std::optional<bool> stop_wish;   // the operator's, until a record fulfils it
  bool draining = false;           // leader: no new operations until the next epoch
  bool rollback_approved = false;  // by the operator, for the next epoch
  Time started_at = 0;
  Time installed_at = 0;      // or accepted at, until INSTALLED
  uint64_t counter_seen = 0;  // highest epoch counter heard of and believed
  Horizon horizon;            // up to where counters are believed
  uint64_t dropped = 0;       // messages
  uint64_t moves = 0;         // commits and adoptions here

  bool HasRecord() const { return durable.accepted.has_value(); }
  const Record& record() const { return *durable.accepted; }
  FoundingId founding() const { return HasRecord() ? record().founding : 0; }
  ClusterId self() const { return config.self; }
  bool Member() const { return HasRecord() && record().members.Contains(self()); }
  bool Leader() const { return HasRecord() && record().leader == self(); }
  bool Fenced() const { return HasRecord() && durable.promised != record().epoch; }
  // Takes part in rounds.
  bool Active() const {
    return !stopped && Member() && kept_memory && installed &&
           (!Fenced() || config.Planted(PlantedFault::kSkipFence));
  }
  ClusterSet Others() const {  // members but self
    ClusterSet others = record().members;
    others.Erase(self());
    return others;
  }
  // The local trainer's tensors are the run's. One that came with more waits for the run to grow.
  bool TrainerTakesPart() const {
    return trainer.present && (!HasRecord() || trainer.schema == record().schema);
  }
  // What the local trainer would have the run grow to.
  std::optional<Growth> GrowthWish() const;
  // Here or at a peer there is a record.
  bool RunExists() const;
  // A peer speaks of a later installed epoch: this gateway was left behind.
  bool Outdated() const;

  // The operator of this gateway or of one that is heard accepts that commits are undone.
  bool RollbackApproved() const;

  // Clusters that this process has not heard for the peer timeout.
  ClusterSet Silent() const;
  // Of clusters that this gateway hears but that do not hear each other, those that should be left
  // out so that the rest can work: of each such pair the higher name, never this gateway.
  ClusterSet OutOfTouch() const;

  void Act(Action&& action) { actions_.push_back(std::move(action)); }
  void Note(std::string text) { Act(engine::Note{std::move(text), false}); }
  void Warn(std::string text) { Act(engine::Note{std::move(text), true}); }
  // In the name of the accepted record, or of an explicit epoch. Dropped where the receiver's
  // incarnation is not known yet and the message needs it.
  void Send(ClusterId to, Message&& message);
  void SendIn(ClusterId to, const Epoch& epoch, Lineage lineage, Message&& message);
  void SendToMembers(const Message& message);

  // Writes the durable state; what SendWhenDurable gets afterwards leaves once that is done.
  uint64_t Persist();
  void SendWhenDurable(ClusterId to, const Epoch& epoch, Lineage lineage, Message message);
  bool IsDurable(uint64_t token) const { return durable_token_ >= token; }
  void OnPersisted(uint64_t token);
  size_t held() const { return held_.size(); }  // messages that wait for the disk

  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }
  // Into `out`, whose room is used again.
  void TakeActions(std::vector<Action>* out) {
    out->clear();
    actions_.swap(*out);
  }

 private:
  struct Held {
    uint64_t token;
    Action action;
  };

  std::optional<Header> HeaderFor(ClusterId to, const Epoch& epoch, Lineage lineage,
                                  const Message& message) const;

  std::vector<Action> actions_;
  std::vector<Held> held_;
  uint64_t token_ = 0;          // last asked for
  uint64_t durable_token_ = 0;  // last done
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_CONTEXT_H_
