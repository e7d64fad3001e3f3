// Training in rounds, in C++: local steps, and every H of them an exchange of what they changed.
// The loop around causeway.hpp that the Python package has as causeway.Outer. Header only, C++17.
//
//     causeway::Outer outer(options, tensors);     // joins; the tensors take the run's values
//     for (...) { ...; optimizer.step(); outer.Step(); }
//     outer.Finish();                               // every cluster now holds the same bytes
//
// Fragment f of P is submitted after steps that are f*H/P modulo H and applied `delay` steps later.
// One thread; rules whose results are applied one round late (co2, eager) are refused. Waits for a
// gateway that is away up to the run's wait_timeout; other failures throw.
#ifndef CAUSEWAY_OUTER_HPP_
#define CAUSEWAY_OUTER_HPP_

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "causeway.hpp"

namespace causeway {

// A contiguous tensor of the trainer's, which outlives Outer.
struct OuterTensor {
  std::string name;
  std::vector<uint64_t> shape;
  void* data = nullptr;
  cw_dtype dtype = CW_FP32;
  cw_group group = CW_PARAMETER;
  cw_memory memory = CW_MEMORY_HOST;
};

struct OuterStats {
  uint64_t steps = 0, rounds = 0, excluded = 0, rebases = 0, steps_lost = 0;
  uint64_t raw_bytes = 0, wire_bytes = 0;
  uint32_t participants = 0, staleness = 0, delay_steps = 0;
  double blocked_s = 0, exchange_s = 0;
};

class Outer {
 public:
  // `weight`: samples or tokens of one step. `cuda`: there are tensors of `device`, whose order is
  // `stream`'s.
  struct Options : Trainer::Options {
    uint64_t weight = 1;
    uint32_t local_steps = 0;  // H insisted on; 0: the run's
    cw_init init = CW_INIT_RUN;
    bool cuda = false;
    int device = 0;
    void* stream = nullptr;
  };

  Outer(const Options& options, std::vector<OuterTensor> tensors)
      : options_(options), tensors_(std::move(tensors)), trainer_(options) {
    std::vector<cw_tensor> schema;
    for (const OuterTensor& tensor : tensors_) {
      cw_tensor out{};
      out.name = tensor.name.c_str();
      out.dtype = static_cast<uint8_t>(tensor.dtype);
      out.group = static_cast<uint8_t>(tensor.group);
      out.dimensions = static_cast<uint8_t>(tensor.shape.size());
      out.alias_of = -1;
      std::copy(tensor.shape.begin(), tensor.shape.end(), out.shape);
      schema.push_back(out);
    }
    layout_ = trainer_.Join(schema, true, options.init, options.local_steps);
    if (layout_.apply_mode == CW_REPLACE && layout_.delay_steps >= layout_.local_steps) {
      throw std::invalid_argument(std::string("rule ") + layout_.rule +
                                  ": results come a whole round late, which this loop does not do");
    }
    if (options.cuda) trainer_.UseCuda(options.device, options.stream);
    slices_.resize(layout_.fragments);
    work_since_.assign(layout_.fragments, 0);
    std::vector<cw_slice> all;
    for (uint32_t i = 0; i < tensors_.size(); ++i) {
      all.push_back(Slice(i, tensors_[i].data, 0, CW_WHOLE, tensors_[i].memory));
      slices_[trainer_.Placement(i).fragment].push_back(all.back());
    }
    automatic_ = layout_.delay_steps == CW_DELAY_AUTO;
    // Until something is measured a quarter of H, with which the gateways plan.
    const uint32_t first = layout_.local_steps > 1 ? std::max(1u, layout_.local_steps / 4) : 0;
    stats_.delay_steps = automatic_ ? first : layout_.delay_steps;
    trainer_.Offer(all);
    if (trainer_.Ready() == CW_MATCH) return;
    for (uint32_t fragment = 0; fragment < layout_.fragments; ++fragment) TakeNewest(fragment);
  }

  // After every optimizer step. Costs nothing, save where a fragment is submitted or due.
  void Step() {
    const Clock::time_point entered = Clock::now();
    if (stats_.steps > 0) step_s_ = Seconds(left_, entered);
    ++stats_.steps;
    CollectDue(stats_.steps);
    const uint64_t steps = layout_.local_steps;
    for (uint32_t fragment = 0; fragment < layout_.fragments; ++fragment) {
      if (stats_.steps % steps != fragment * steps / layout_.fragments) continue;
      if (flights_.count(fragment) == 0) Launch(fragment, false);
    }
    if (stats_.delay_steps == 0) CollectDue(stats_.steps);
    left_ = Clock::now();
    stats_.blocked_s += Seconds(entered, left_);
  }

  // Has every gateway keep, under `label` (cw_submission), the state that each fragment's next
  // round commits. All clusters' trainers call it after the same step.
  void Snapshot(const std::string& label) {
    for (uint32_t fragment = 0; fragment < layout_.fragments; ++fragment) labels_[fragment] = label;
  }

  // Exchanges all remaining work and leaves. The SHA-256 of the run's values.
  std::array<uint8_t, 32> Finish() {
    while (!flights_.empty()) CollectDue(UINT64_MAX);
    for (uint32_t fragment = 0; fragment < layout_.fragments; ++fragment) Launch(fragment, true);
    while (!flights_.empty()) CollectDue(UINT64_MAX);
    const std::array<uint8_t, 32> hash = Patiently([this] { return trainer_.Finish(); });
    trainer_.Leave();
    return hash;
  }

  const OuterStats& stats() const { return stats_; }
  const cw_layout& layout() const { return layout_; }
  Trainer& trainer() { return trainer_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight {
    Operation operation;
    uint64_t step, due;
    bool replace;
  };

  static double Seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  // A gateway that goes away answers once; the next call reconnects.
  template <typename Call>
  auto Patiently(Call call) -> decltype(call()) {
    for (;;) {
      try {
        return call();
      } catch (const GatewayLost&) {
        trainer_.Reconnect();
      }
    }
  }

  void Launch(uint32_t fragment, bool replace) {
    const uint64_t weight = options_.weight * (stats_.steps - work_since_[fragment]);
    const auto label = labels_.find(fragment);
    const std::string text = label == labels_.end() ? "" : label->second;
    try {
      Operation operation = Patiently([&] {
        return Operation(trainer_, fragment, weight, slices_[fragment], CW_ORIGIN_BASE,
                         text.empty() ? nullptr : text.c_str());
      });
      labels_.erase(fragment);
      const uint64_t due = stats_.steps + (replace ? 0 : stats_.delay_steps);
      flights_.emplace(fragment, Flight{std::move(operation), stats_.steps, due, replace});
    } catch (const Rebase&) {
      Rebased(fragment);
    }
  }

  // Other clusters wait for this one's work on a fragment, and this one for theirs on another:
  // trainers that began anew, or whose work was void, may be out of step. It goes before its turn,
  // which comes, too; without it none of them would go on.
  void Bring(uint32_t fragment) {
    const auto flown = flights_.find(fragment);
    const bool replace = flown != flights_.end() && flown->second.replace;
    if (flown != flights_.end()) Collect({fragment});
    Launch(fragment, replace);
    const auto found = flights_.find(fragment);
    if (found == flights_.end()) return;
    const uint64_t steps = layout_.local_steps;
    uint64_t turn = stats_.steps + 1;
    while (turn % steps != fragment * steps / layout_.fragments) ++turn;
    found->second.due = std::min(found->second.due, turn);
  }

  void Await(uint32_t fragment) {
    constexpr int64_t kSliceMs = 1000;
    const Clock::time_point began = Clock::now();
    for (;;) {
      try {
        Patiently([&] { return flights_.at(fragment).operation.Wait(kSliceMs); });
        return;
      } catch (const Timeout&) {
        if (Spent(began)) throw;
      } catch (const Stalled&) {
        if (Spent(began)) throw;
      }
      Operation& operation = flights_.at(fragment).operation;
      if (Patiently([&] { return operation.Ready(); })) return;
      if (operation.result().wanted > 0) Bring(operation.result().wanted - 1);
    }
  }

  bool Spent(Clock::time_point began) const {
    return layout_.wait_timeout_ms > 0 &&
           Seconds(began, Clock::now()) * 1000 >= static_cast<double>(layout_.wait_timeout_ms);
  }

  void CollectDue(uint64_t step) {
    std::vector<uint32_t> due;
    for (auto& [fragment, flight] : flights_) {
      if (flight.due <= step) due.push_back(fragment);
    }
    Collect(due);
  }

  // All results are there before the first write.
  void Collect(const std::vector<uint32_t>& due) {
    std::vector<uint32_t> rebased;
    for (const uint32_t fragment : due) {
      try {
        if (flights_.count(fragment) > 0) Await(fragment);
      } catch (const Rebase&) {
        rebased.push_back(fragment);
        flights_.erase(fragment);
      }
    }
    for (const uint32_t fragment : due) {
      auto found = flights_.find(fragment);
      if (found == flights_.end()) continue;
      Flight& flight = found->second;
      const auto mode =
          flight.replace ? CW_REPLACE : static_cast<cw_apply_mode>(layout_.apply_mode);
      flight.operation.Apply(mode, slices_[fragment], layout_.mix);
      flight.operation.Applied();
      Note(flight, mode);
      flights_.erase(found);
    }
    for (const uint32_t fragment : rebased) Rebased(fragment);
  }

  void Note(const Flight& flight, cw_apply_mode mode) {
    const cw_result& result = flight.operation.result();
    const bool committed = result.state == CW_STATE_COMMITTED;
    if (committed || mode == CW_REPLACE) {
      work_since_[flight.operation.fragment()] = mode == CW_REPLACE ? stats_.steps : flight.step;
    }
    stats_.excluded += committed ? 0 : 1;
    ++stats_.rounds;
    stats_.raw_bytes += result.raw_bytes;
    stats_.wire_bytes += result.wire_bytes;
    stats_.participants = result.participants;
    stats_.staleness = result.staleness;
    const double exchange_s = static_cast<double>(result.exchange_us) / 1e6;
    stats_.exchange_s += exchange_s;
    if (!automatic_ || layout_.local_steps <= 1 || step_s_ <= 0) return;
    const double needed = std::ceil(exchange_s / step_s_);
    stats_.delay_steps = static_cast<uint32_t>(
        std::clamp(needed, 1.0, static_cast<double>(layout_.local_steps - 1)));
  }

  void TakeNewest(uint32_t fragment) {
    const int64_t round = trainer_.Fragment(fragment).newest_round;
    trainer_.Read(fragment, round, slices_[fragment]);
    trainer_.Applied(fragment, round);
  }

  void Rebased(uint32_t fragment) {
    TakeNewest(fragment);
    ++stats_.rebases;
    stats_.steps_lost += stats_.steps - work_since_[fragment];
    work_since_[fragment] = stats_.steps;
  }

  const Options options_;
  const std::vector<OuterTensor> tensors_;
  Trainer trainer_;
  cw_layout layout_{};
  bool automatic_ = false;
  std::vector<std::vector<cw_slice>> slices_;  // by fragment
  std::vector<uint64_t> work_since_;  // by fragment: the step since which nothing is counted
  std::map<uint32_t, Flight> flights_;
  std::map<uint32_t, std::string> labels_;  // for the next round of each
  Clock::time_point left_{};
  double step_s_ = 0;
  OuterStats stats_;
};

}  // namespace causeway

#endif  // CAUSEWAY_OUTER_HPP_
