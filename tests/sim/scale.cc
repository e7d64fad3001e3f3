// See scale.h. A member holds a chunk's part of a round once all pieces that make it are through:
// directly all contributions' pieces, by owner the owner's result, which leaves as soon as the
// owner has that piece of everybody.
#include "tests/sim/scale.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "daemon/engine/engine.h"
#include "tests/sim/gateway.h"

namespace causeway::sim {
namespace {

constexpr int kPieces = 16;  // of one cluster's part for another
constexpr Time kFsync = 1'000;
constexpr Time kPeerTimeoutScale = 10'000'000;
constexpr int kPlainRounds = 2;  // before the plan
constexpr Time kGiveUp = 3'600'000'000;

Time Micros(double seconds) { return static_cast<Time>(std::llround(seconds * 1e6)); }

[[noreturn]] void Give(const char* what, int node) {
  std::fprintf(stderr, "scale: cluster %d: %s\n", node, what);
  std::abort();
}

class Scale {
 public:
  explicit Scale(const ScaleOptions& options)
      : options_(options), n_(static_cast<int>(options.exchange.lines.size())) {
    for (int id = 0; id < n_; ++id) nodes_.push_back(std::make_unique<Node>());
    for (int id = 0; id < n_; ++id) Start(id);
  }

  ScaleResult Run() {
    const int last = kPlainRounds + options_.rounds;
    while (committed_all_ < last) {
      if (queue_.empty() || queue_.top().at > kGiveUp) Give("the rounds do not come", 0);
      const Item item = std::move(const_cast<Item&>(queue_.top()));
      queue_.pop();
      now_ = item.at;
      item.what();
    }
    return Result();
  }

 private:
  struct Item {
    Time at;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Item& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Node {
    std::unique_ptr<engine::Engine> engine;
    Time timer = engine::kNever;
    Time out_free = 0;
    Time in_free = 0;
    engine::StateId state;
    bool adopted = false;
    uint64_t op = 0;
    std::optional<engine::Reduce> reduce;
    bool held = false;
    // By round: pieces in, of contributions by piece and (owner) of results.
    std::map<engine::RoundNumber, std::map<int, int>> contributions;
    std::map<engine::RoundNumber, int> results;
    std::map<engine::RoundNumber, bool> own;
    uint64_t sent = 0;
    uint64_t heartbeats = 0;
  };

  void At(Time when, std::function<void()> what) { queue_.push({when, order_++, std::move(what)}); }
  Node& node(int id) { return *nodes_[static_cast<size_t>(id)]; }
  const planning::Line& LineOf(int id) const {
    return options_.exchange.lines.at(static_cast<ClusterId>(id));
  }
  double Share(int id) const {
    const auto part = options_.plan.parts.find(static_cast<ClusterId>(id));
    return part == options_.plan.parts.end()
               ? 0
               : static_cast<double>(part->second) / planning::kShareParts;
  }
  bool ByOwner(engine::RoundNumber round) const {
    return options_.plan.route == planning::Route::kOwner && round > kPlainRounds;
  }

  void Start(int id) {
    engine::Config config;
    config.clusters = n_;
    config.self = static_cast<ClusterId>(id);
    config.incarnation = static_cast<engine::Incarnation>(1000 + id);
    config.electorate.voters = engine::ClusterSet::FirstOf(n_);
    config.peer_timeout = kPeerTimeoutScale;
    config.hash = MixHash;
    node(id).engine =
        std::make_unique<engine::Engine>(config, engine::Durable{}, static_cast<uint64_t>(id));
    At(static_cast<Time>(id) * 1'000, [this, id] {
      Drive(id, engine::Start{});
      for (int peer = 0; peer < n_; ++peer) {
        if (peer != id) Drive(id, engine::PeerConnected{static_cast<ClusterId>(peer)});
      }
      engine::TrainerJoined joined;
      joined.session = static_cast<uint64_t>(id) + 1;
      joined.schema[0] = joined.algorithm[0] = joined.parameters[0] = 1;
      joined.fragments = 1;
      joined.has_parameters = true;
      Drive(id, joined);
    });
  }

  void Drive(int id, const engine::Event& event) {
    node(id).engine->Handle(now_, event);
    for (const engine::Action& action : node(id).engine->TakeActions()) {
      std::visit([&](const auto& what) { Do(id, what); }, action);
    }
    const Time next = node(id).engine->NextTimer();
    if (next >= node(id).timer || next == engine::kNever) return;
    node(id).timer = next;
    At(std::max(next, now_), [this, id, next] {
      if (node(id).timer != next) return;
      node(id).timer = engine::kNever;
      Drive(id, engine::Timer{});
    });
  }

  // ---- the engine's orders
  template <typename Other>
  void Do(int, const Other&) {}  // of no consequence without faults
  void Do(int id, const engine::Fatal& action) { Give(action.detail.c_str(), id); }
  void Do(int id, const engine::Send& action) {
    const bool beat = std::holds_alternative<engine::Heartbeat>(action.envelope.message);
    if (measuring_) ++(beat ? node(id).heartbeats : node(id).sent);
    At(now_ + Micros(options_.exchange.rtt_seconds / 2), [this, id, action] {
      Drive(action.to, engine::Received{static_cast<ClusterId>(id), action.envelope});
    });
  }
  void Do(int id, const engine::Persist& action) {
    At(now_ + kFsync, [this, id, token = action.token] { Drive(id, engine::Persisted{token}); });
  }
  void Do(int id, const engine::AdoptState& action) {
    node(id).state = action.state;
    node(id).adopted = true;
    ++adopted_;
    if (adopted_ < n_) return;
    founded_ = now_;
    for (int each = 0; each < n_; ++each) Compute(each);
  }
  void Do(int id, const engine::StartContribution& action) {
    if (ByOwner(action.round) && action.plan == 0) plan_named_ = false;
    const planning::Plan& plan = options_.plan;
    const double bytes = planning::EncodedBytes(plan.ContributionCodec(static_cast<ClusterId>(id)),
                                                options_.exchange.elements);
    const bool owner = ByOwner(action.round);
    for (int piece = 0; piece < kPieces; ++piece) {
      // Each begins with another receiver, or all would queue at one line.
      for (int step = 1; step < n_; ++step) {
        const int to = (id + step) % n_;
        const double share = owner ? Share(to) : 1;
        if (share > 0) SendPiece(id, to, action.round, piece, false, bytes * share / kPieces);
      }
    }
    for (int piece = 0; piece < kPieces; ++piece) Arrived(id, id, action.round, piece, false);
  }
  void Do(int id, const engine::Reduce& action) {
    node(id).reduce = action;
    node(id).held = false;
    TryHold(id);
  }
  void Do(int id, const engine::Commit& action) {
    Node& at = node(id);
    at.state = action.record.state;
    at.reduce.reset();
    const engine::RoundNumber round = action.record.state.round;
    at.contributions.erase(round);
    at.results.erase(round);
    if (++commits_[round] < n_) {
      Compute(id);
      return;
    }
    committed_all_ = round;
    if (round > kPlainRounds) {
      slowest_ = std::max(slowest_, now_ - submitted_[round]);
    }
    if (round == kPlainRounds) {
      measuring_ = true;
      measured_from_ = now_;
    }
    Compute(id);
  }
  void Do(int id, const engine::EpochInstalled& action) {
    leader_ = action.record.leader;
    (void)id;
  }

  // ---- trainers
  void Compute(int id) {
    At(now_ + Micros(options_.compute_seconds), [this, id] { Submit(id); });
  }
  void Submit(int id) {
    Node& at = node(id);
    const engine::RoundNumber round = at.state.round + 1;
    if (id == leader_ && round == kPlainRounds && options_.plan.route == planning::Route::kOwner) {
      Drive(id, engine::ProposePlan{kPlainRounds + 1, "by owner"});
    }
    submitted_[round] = std::max(submitted_[round], now_);
    engine::Submit submit;
    submit.base = at.state;
    submit.weight = 1;
    submit.op = {static_cast<uint64_t>(id) + 1, ++at.op};
    Drive(id, submit);
  }

  // ---- data
  void SendPiece(int from, int to, engine::RoundNumber round, int piece, bool result,
                 double bytes) {
    Node& sender = node(from);
    sender.out_free = std::max(sender.out_free, now_) + Micros(bytes / LineOf(from).out);
    At(sender.out_free + Micros(options_.exchange.rtt_seconds / 2),
       [this, from, to, round, piece, result, bytes] {
         Node& receiver = node(to);
         receiver.in_free = std::max(receiver.in_free, now_) + Micros(bytes / LineOf(to).in);
         At(receiver.in_free, [this, from, to, round, piece, result] {
           Drive(to, engine::Progress{static_cast<ClusterId>(from),
                                      static_cast<engine::Incarnation>(1000 + from)});
           Arrived(from, to, round, piece, result);
         });
       });
  }
  void Arrived(int, int at, engine::RoundNumber round, int piece, bool result) {
    Node& here = node(at);
    if (round <= here.state.round) return;
    if (result) {
      ++here.results[round];
    } else if (++here.contributions[round][piece] == n_ && ByOwner(round) && Share(at) > 0) {
      const double bytes =
          planning::EncodedBytes(options_.plan.codec, options_.exchange.elements) * Share(at);
      for (int step = 1; step < n_; ++step) {
        SendPiece(at, (at + step) % n_, round, piece, true, bytes / kPieces);
      }
      ++here.results[round];
    }
    TryHold(at);
  }
  void TryHold(int id) {
    Node& at = node(id);
    if (!at.reduce || at.held) return;
    const engine::RoundNumber round = at.reduce->round;
    int owners = 0;
    for (int each = 0; each < n_; ++each) owners += Share(each) > 0 ? 1 : 0;
    int pieces = 0;
    for (const auto& [piece, count] : at.contributions[round]) pieces += count == n_ ? 1 : 0;
    const bool whole = ByOwner(round) ? at.results[round] == owners * kPieces : pieces == kPieces;
    if (!whole) return;
    at.held = true;
    engine::ResultHeld held{at.reduce->fragment, round, at.reduce->epoch,
                            at.reduce->attempt,  {},    {}};
    held.result[0] = static_cast<uint8_t>(1 + round % 200);
    held.previous_state[0] = static_cast<uint8_t>(1 + (round - 1) % 200);
    At(now_, [this, id, held] { Drive(id, held); });
  }

  ScaleResult Result() {
    ScaleResult out;
    out.round_seconds = static_cast<double>(slowest_) / 1e6;
    out.first_seconds = static_cast<double>(founded_) / 1e6;
    uint64_t beats = 0;
    uint64_t sent = 0;
    for (int id = 0; id < n_; ++id) {
      beats += node(id).heartbeats;
      sent += id == leader_ ? 0 : node(id).sent;
    }
    out.control_messages = static_cast<double>(sent) / options_.rounds / std::max(1, n_ - 1);
    out.control_messages_leader = static_cast<double>(node(leader_).sent) / options_.rounds;
    out.heartbeats_per_second =
        static_cast<double>(beats) / n_ / (static_cast<double>(now_ - measured_from_) / 1e6);
    out.plan_named = plan_named_;
    return out;
  }

  const ScaleOptions options_;
  const int n_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::priority_queue<Item> queue_;
  uint64_t order_ = 0;
  Time now_ = 0;
  Time founded_ = 0;
  int adopted_ = 0;
  int leader_ = 0;
  bool plan_named_ = true;
  bool measuring_ = false;
  Time measured_from_ = 0;
  Time slowest_ = 0;
  engine::RoundNumber committed_all_ = 0;
  std::map<engine::RoundNumber, int> commits_;
  std::map<engine::RoundNumber, Time> submitted_;
};

}  // namespace

ScaleResult RunScale(const ScaleOptions& options) { return Scale(options).Run(); }

}  // namespace causeway::sim
