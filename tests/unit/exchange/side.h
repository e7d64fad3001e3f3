// Two gateways' exchanges in one loop: real endpoints, workers and buffers, a network of function
// calls.
//
// The test plays the engine: it gives orders and reads what the listener heard.
#ifndef CAUSEWAY_TESTS_UNIT_EXCHANGE_SIDE_H_
#define CAUSEWAY_TESTS_UNIT_EXCHANGE_SIDE_H_

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/exchange/exchange.h"
#include "tests/unit/endpoint/model.h"

namespace causeway::testing {

class Side;

// Delivers in order, at once unless told to hold or lose.
class Wire {
 public:
  explicit Wire(loop::Loop* loop) : loop(loop) {}
  loop::Loop* const loop;
  std::vector<Side*> sides;
  std::function<bool(const exchange::ChunkAddress&)> lose = [](const auto&) { return false; };
  bool twice = false;  // every chunk arrives twice
};

class Side final : public exchange::ChunkPort, public exchange::ExchangeListener {
 public:
  Side(Wire* wire, engine::ClusterId self, const std::string& codec, outer::RuleSpec rule,
       uint64_t elements, work::WorkerPool* workers)
      : wire_(wire),
        self_(self),
        model({TensorOf("w", elements)}, codec, rule.kind != outer::RuleSpec::Kind::kGradients) {
    buffers =
        std::make_unique<memory::BufferPool>(model.budget, *model.budget->Open("chunks"), 1 << 20);
    endpoint = std::shared_ptr<endpoint::LocalEndpoint>(std::move(model.endpoint));
    auto state = outer::OuterState::Create({{model.layout->fragments()[0].elements, rule}},
                                           compression::kChunkElements, model.account);
    REQUIRE(state.ok());
    outer = *std::move(state);
    exchange::Context context;
    context.self = self;
    context.incarnation = 100u + self;
    context.codec = Codec(codec);
    context.layout = model.layout;
    context.endpoint = endpoint;
    context.outer = outer;
    context.loop = wire->loop;
    context.workers = workers;
    context.buffers = buffers.get();
    context.port = this;
    context.listener = this;
    exchange = std::make_unique<exchange::Exchange>(context);
    wire->sides.push_back(this);
  }

  static local::TensorRecord TensorOf(const std::string& name, uint64_t elements) {
    return Record(name, {elements});
  }

  exchange::FragmentExchange& rounds() { return exchange->rounds(0); }
  absl::Span<const float> Value(int64_t round) { return endpoint->Value(0, round); }

  void Adopt(engine::StateId state) {
    engine::AdoptState action;
    action.state = state;
    action.from_trainer = true;
    exchange->state(0).Adopt(action);
  }
  void Start(int64_t round, uint64_t weight, engine::ClusterSet to, uint64_t op = 1) {
    engine::StartContribution action;
    action.round = round;
    action.epoch = {1, 0};
    action.op = {7, op};
    action.weight = weight;
    action.to = to;
    rounds().StartContribution(action);
  }

  // ---- ChunkPort
  void SendChunk(engine::ClusterId to, const exchange::ChunkAddress& address,
                 memory::SharedBuffer payload) override {
    if (wire_->lose(address)) return;
    for (int copy = 0; copy < (wire_->twice ? 2 : 1); ++copy) {
      wire_->loop->Post([this, to, address, payload] {
        Side& peer = *wire_->sides[to];
        auto buffer = peer.buffers->Allocate(payload.size());
        REQUIRE(buffer.ok());
        std::memcpy(buffer->data(), payload.data(), payload.size());
        peer.received_bytes += payload.size();
        peer.exchange->OnChunk(self_, address, *std::move(buffer));
      });
    }
  }
  void CancelChunks(engine::FragmentId, engine::RoundNumber) override {}
  void ReturnCredit(engine::ClusterId, uint64_t bytes) override { returned_bytes += bytes; }
  void RequestChunks(engine::ClusterId from, engine::FragmentId, engine::RoundNumber round,
                     const std::vector<uint32_t>& indices) override {
    chunks_requested += indices.size();
    wire_->loop->Post([this, from, round, indices] {
      wire_->sides[from]->rounds().SendAgain(self_, round, indices);
    });
  }
  void RequestState(engine::ClusterId from, engine::FragmentId,
                    const engine::StateId& state) override {
    if (!linked) return;
    wire_->loop->Post(
        [this, from, state] { wire_->sides[from]->exchange->state(0).OnRequest(self_, state); });
  }
  void OfferState(engine::ClusterId to, engine::FragmentId, const engine::StateId& state,
                  bool found, const engine::Hash256& hash) override {
    engine::Hash256 told = hash;
    if (lie_about_state) told[0] ^= 1;
    wire_->loop->Post([this, to, state, found, told] {
      wire_->sides[to]->exchange->state(0).OnOffer(self_, state, found, told);
    });
  }

  // ---- ExchangeListener
  void OnResultHeld(const engine::ResultHeld& event) override { held.push_back(event); }
  void OnCommitted(const exchange::CommitReport& report) override {
    exchange->state(0).SetCommitted(report.record.state);
    committed.push_back(report);
  }
  void OnStateHeld(const engine::StateHeld& event) override { states.push_back(event); }
  void OnStateFailed(const engine::StateFailed& event) override { failed_states.push_back(event); }
  void OnAdopted(engine::FragmentId, const engine::StateId& state) override {
    adopted.push_back(state);
  }
  void OnContributionFailed(engine::OpId, engine::FragmentId, const absl::Status& status) override {
    failures.push_back(status);
  }
  void OnBadChunk(engine::ClusterId, const exchange::ChunkAddress&,
                  const absl::Status& status) override {
    bad_chunks.push_back(status);
  }
  void OnNote(const std::string& text) override { notes.push_back(text); }

 private:
  Wire* const wire_;
  const engine::ClusterId self_;

 public:
  Model model;
  std::unique_ptr<memory::BufferPool> buffers;
  std::shared_ptr<endpoint::LocalEndpoint> endpoint;
  std::shared_ptr<outer::OuterState> outer;
  std::unique_ptr<exchange::Exchange> exchange;
  bool lie_about_state = false;
  bool linked = true;  // false: what it asks of donors is lost

  std::vector<engine::ResultHeld> held;
  std::vector<exchange::CommitReport> committed;
  std::vector<engine::StateHeld> states;
  std::vector<engine::StateFailed> failed_states;
  std::vector<engine::StateId> adopted;
  std::vector<absl::Status> failures;
  std::vector<absl::Status> bad_chunks;
  std::vector<std::string> notes;
  uint64_t received_bytes = 0;
  uint64_t returned_bytes = 0;
  uint64_t chunks_requested = 0;
};

// Both sides, and the loop that runs them until a condition holds.
class Pair {
 public:
  Pair(const std::string& codec, outer::RuleSpec rule, uint64_t elements)
      : loop(*loop::Loop::Create()), workers(2), wire(loop.get()) {
    for (engine::ClusterId id : {0, 1}) {
      sides.push_back(std::make_unique<Side>(&wire, id, codec, rule, elements, &workers));
    }
  }
  ~Pair() {
    loop->Close();
    sides.clear();
  }
  Side& a() { return *sides[0]; }
  Side& b() { return *sides[1]; }

  // Fails the test when it does not become true.
  template <typename Condition>
  void Until(Condition condition) {
    const int64_t limit = loop::Now() + 30'000'000;
    while (!condition()) {
      REQUIRE(loop::Now() < limit);
      loop->After(200, [this] { loop->Stop(); });
      loop->Run();
    }
  }

  engine::Reduce Order(int64_t round, std::vector<uint64_t> weights, uint32_t attempt = 0) {
    engine::Reduce order;
    order.round = round;
    order.epoch = {1, 0};
    order.attempt = attempt;
    for (engine::ClusterId id = 0; id < weights.size(); ++id) {
      order.contributors.push_back({id, 100u + id, {7, static_cast<uint64_t>(round)}, weights[id]});
    }
    return order;
  }
  engine::Commit CommitOf(const engine::Reduce& order, engine::OwnPart own) {
    engine::Commit commit;
    commit.record.state.round = order.round;
    commit.record.epoch = order.epoch;
    commit.record.contributors = order.contributors;
    commit.own = own;
    commit.own_op = {7, static_cast<uint64_t>(order.round)};
    return commit;
  }

  std::unique_ptr<loop::Loop> loop;
  work::WorkerPool workers;
  Wire wire;
  std::vector<std::unique_ptr<Side>> sides;
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_EXCHANGE_SIDE_H_
