// Gateways' exchanges in one loop: real endpoints, workers and buffers, a network of function
// calls.
//
// The test plays the engine: it gives orders and reads what the listener heard.
#ifndef CAUSEWAY_TESTS_UNIT_EXCHANGE_SIDE_H_
#define CAUSEWAY_TESTS_UNIT_EXCHANGE_SIDE_H_

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/exchange/exchange.h"
#include "daemon/planning/plan.h"
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

// What all sides of a test are made with.
struct Setup {
  std::string codec = "int4:ef";
  outer::RuleSpec rule;
  uint64_t elements = 1000;
  uint32_t fragments = 1;                            // of as many tensors, all of `elements`
  uint64_t pool_bytes = memory::Budget::kUnlimited;  // that are not reserved
  int64_t serve_patience_us = 30'000'000;
  uint64_t window_bytes = 0;  // of credit; 0: no bound
};

class Side final : public exchange::ChunkPort, public exchange::ExchangeListener {
 public:
  Side(Wire* wire, engine::ClusterId self, const Setup& setup, work::WorkerPool* workers)
      : wire_(wire),
        self_(self),
        model(TensorsOf(setup), setup.codec, setup.rule.kind != outer::RuleSpec::Kind::kGradients,
              setup.fragments),
        book({Codec(setup.codec), {}, planning::Route::kDirect, {}, ""}) {
    buffers = std::make_unique<memory::BufferPool>(
        model.budget, *model.budget->Open("chunks", setup.pool_bytes), 1 << 20);
    received = std::make_unique<memory::BufferPool>(model.budget, *model.budget->Open("received"),
                                                    1 << 20);
    endpoint = std::shared_ptr<endpoint::LocalEndpoint>(std::move(model.endpoint));
    std::vector<outer::FragmentShape> shapes;
    for (const local::FragmentRecord& fragment : model.layout->fragments()) {
      shapes.push_back({fragment.elements, setup.rule});
    }
    auto state = outer::OuterState::Create(shapes, compression::kChunkElements, model.account);
    REQUIRE(state.ok());
    outer = *std::move(state);
    auto set_aside = exchange::Reserve::Create(
        buffers.get(), model.account,
        exchange::Reserve::SizesFor(*model.layout, {Codec(setup.codec)}, true));
    REQUIRE(set_aside.ok());
    reserve = *std::move(set_aside);
    exchange::Context context;
    context.self = self;
    context.incarnation = 100u + self;
    context.plans = &book;
    context.layout = model.layout;
    context.endpoint = endpoint;
    context.outer = outer;
    context.loop = wire->loop;
    context.workers = workers;
    context.buffers = buffers.get();
    context.reserve = reserve.get();
    context.port = this;
    context.listener = this;
    context.served_ahead_max = 2;
    context.serve_patience_us = setup.serve_patience_us;
    context.window_bytes = setup.window_bytes;
    exchange = std::make_unique<exchange::Exchange>(context);
    wire->sides.push_back(this);
  }

  static std::vector<local::TensorRecord> TensorsOf(const Setup& setup) {
    std::vector<local::TensorRecord> out;
    for (uint32_t i = 0; i < setup.fragments; ++i) {
      out.push_back(Record("w" + std::to_string(i), {setup.elements}));
    }
    return out;
  }

  exchange::FragmentExchange& rounds(engine::FragmentId fragment = 0) {
    return exchange->rounds(fragment);
  }
  absl::Span<const float> Value(int64_t round) { return endpoint->Value(0, round); }

  void Adopt(engine::StateId state, engine::FragmentId fragment = 0) {
    engine::AdoptState action;
    action.fragment = fragment;
    action.state = state;
    action.from_trainer = true;
    exchange->state(fragment).Adopt(action);
  }
  void Start(int64_t round, uint64_t weight, engine::ClusterSet to, uint64_t op = 1,
             engine::PlanId plan = 0, engine::FragmentId fragment = 0) {
    engine::StartContribution action;
    action.fragment = fragment;
    action.round = round;
    action.epoch = epoch;
    action.op = {7, op};
    action.weight = weight;
    action.plan = plan;
    action.to = to;
    rounds(fragment).StartContribution(action);
  }

  // ---- ChunkPort
  bool SendChunk(engine::ClusterId to, const exchange::ChunkAddress& address,
                 memory::SharedBuffer payload, bool) override {
    const bool state = address.kind == exchange::ChunkKind::kState;
    if (state && shut) {
      shut_in.push_back(address);
      return true;
    }
    const int copies = wire_->lose(address) ? 0 : wire_->twice ? 2 : 1;
    sent_bytes[{address.kind, to}] += payload.size();
    for (int copy = 0; copy < copies; ++copy) {
      wire_->loop->Post([this, to, address, payload] {
        Side& peer = *wire_->sides[to];
        if (!peer.exchange) return;  // it has died
        auto buffer = peer.received->Allocate(payload.size());
        REQUIRE(buffer.ok());
        std::memcpy(buffer->data(), payload.data(), payload.size());
        peer.received_bytes += payload.size();
        peer.exchange->OnChunk(self_, address, *std::move(buffer));
      });
    }
    if (state) {
      state_in_flight_max = std::max(state_in_flight_max, ++state_in_flight);
      wire_->loop->Post([this, address] {
        if (hold_state) {
          held_state.push_back(address);
        } else {
          StateChunkDone(address);
        }
      });
    }
    return true;
  }
  void CancelChunks(exchange::ChunkKind, engine::FragmentId, engine::RoundNumber) override {}
  void ReturnCredit(engine::ClusterId, uint64_t bytes) override { returned_bytes += bytes; }
  void RequestChunks(engine::ClusterId from, const exchange::ChunkRequest& request) override {
    chunks_requested += request.indices.size();
    if (!linked) return;
    wire_->loop->Post([this, from, request] {
      if (wire_->sides[from]->exchange)
        wire_->sides[from]->exchange->OnChunkRequest(self_, request);
    });
  }
  void RequestState(engine::ClusterId from, engine::FragmentId, const engine::StateId& state,
                    const exchange::PieceSet& wanted) override {
    if (!linked) return;
    wire_->loop->Post([this, from, state, wanted] {
      wire_->sides[from]->exchange->state(0).OnRequest(self_, state, wanted);
    });
  }
  void OfferState(engine::ClusterId to, engine::FragmentId, const engine::StateId& state,
                  const exchange::DonorAnswer& answer) override {
    exchange::DonorAnswer told = answer;
    if (lie_about_state) told.hash[0] ^= 1;
    wire_->loop->Post([this, to, state, told] {
      Side& peer = *wire_->sides[to];
      if (peer.exchange) peer.exchange->state(0).OnOffer(self_, state, told);
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
  void OnBadChunk(engine::ClusterId, const exchange::ChunkAddress&,
                  const absl::Status& status) override {
    bad_chunks.push_back(status);
  }
  void OnDeviceFailed(const absl::Status& status) override { device_failures.push_back(status); }
  void OnNote(const std::string& text) override { notes.push_back(text); }

 private:
  Wire* const wire_;
  const engine::ClusterId self_;

 public:
  Model model;
  planning::PlanBook book;
  engine::Epoch epoch{1, 0};
  std::unique_ptr<memory::BufferPool> buffers;
  std::unique_ptr<memory::BufferPool> received;
  std::shared_ptr<endpoint::LocalEndpoint> endpoint;
  std::shared_ptr<outer::OuterState> outer;
  std::unique_ptr<exchange::Reserve> reserve;
  std::unique_ptr<exchange::Exchange> exchange;
  bool lie_about_state = false;
  bool linked = true;  // false: what it asks of donors is lost
  bool shut = false;   // pieces of state wait for credit that does not come
  std::vector<exchange::ChunkAddress> shut_in;

  std::vector<engine::ResultHeld> held;
  std::vector<exchange::CommitReport> committed;
  std::vector<engine::StateHeld> states;
  std::vector<engine::StateFailed> failed_states;
  std::vector<engine::StateId> adopted;
  std::vector<absl::Status> bad_chunks;
  std::vector<absl::Status> device_failures;
  std::vector<std::string> notes;
  uint64_t received_bytes = 0;
  uint64_t returned_bytes = 0;
  uint64_t chunks_requested = 0;
  std::map<std::pair<exchange::ChunkKind, engine::ClusterId>, uint64_t> sent_bytes;
  void StateChunkDone(const exchange::ChunkAddress& address) {
    --state_in_flight;
    if (exchange) exchange->OnStateChunkDone(address.fragment);
  }
  // What the port says of state chunks from now on, and what it has kept back.
  void ReleaseState() {
    hold_state = false;
    for (const exchange::ChunkAddress& address : std::exchange(held_state, {})) {
      StateChunkDone(address);
    }
  }
  bool hold_state = false;  // sent state chunks stay in flight
  std::vector<exchange::ChunkAddress> held_state;
  uint32_t state_in_flight = 0;
  uint32_t state_in_flight_max = 0;
};

// All sides, and the loop that runs them until a condition holds.
class Group {
 public:
  Group(int clusters, const Setup& setup)
      : loop(*loop::Loop::Create()), workers(2), wire(loop.get()) {
    for (int id = 0; id < clusters; ++id) {
      sides.push_back(
          std::make_unique<Side>(&wire, static_cast<engine::ClusterId>(id), setup, &workers));
    }
    Install({1, 0}, engine::ClusterSet::FirstOf(clusters));
  }
  ~Group() {
    loop->Close();
    sides.clear();
  }

  // A membership is in force on all that are in it.
  void Install(engine::Epoch epoch, engine::ClusterSet members) {
    engine::Record record;
    record.epoch = epoch;
    record.members = members;
    for (engine::ClusterId id = 0; id < sides.size(); ++id) {
      record.incarnations.push_back(members.Contains(id) ? 100u + id : 0);
    }
    for (engine::ClusterId id : members) {
      sides[id]->epoch = epoch;
      sides[id]->exchange->OnEpoch(record);
    }
    this->epoch = epoch;
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
    order.epoch = epoch;
    order.attempt = attempt;
    for (engine::ClusterId id = 0; id < weights.size(); ++id) {
      order.contributors.push_back({id, 100u + id, {7, static_cast<uint64_t>(round)}, weights[id]});
    }
    return order;
  }
  Side& side(int id) { return *sides[static_cast<size_t>(id)]; }
  // Every living side knows the plan by this id.
  void Know(engine::PlanId id, const planning::Plan& plan) {
    for (auto& side : sides) {
      side->book.Add(id, plan, std::nullopt);
      if (side->exchange) side->exchange->OnPlanKnown();
    }
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
  engine::Epoch epoch;
};

class Pair : public Group {
 public:
  Pair(const std::string& codec, outer::RuleSpec rule, uint64_t elements)
      : Group(2, {codec, rule, elements}) {}
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_EXCHANGE_SIDE_H_
