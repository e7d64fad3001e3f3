// The daemon's Prometheus metrics as typed members, and the HTTP endpoint that serves them.
//
// Threads: every method from any thread; With() takes a lock, a series an atomic or a short lock.
// Keep the reference that With() returns: it lives until Remove() or the Metrics' end. Labels are
// configured names (peers, runs) and fixed words only, never addresses or round numbers; a metric
// holds at most kSeriesMax series, later ones share the series whose labels are all "other". Does
// not: collect by itself; whoever owns a number sets it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace causeway::observe {

inline constexpr size_t kSeriesMax = 1024;

enum class MetricKind { kCounter, kGauge, kHistogram };

// What a metric is called and means.
struct MetricInfo {
  std::string name;
  std::string help;
  MetricKind kind;
  std::vector<std::string> labels;
};

// Only grows.
class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double amount) = 0;  // amount >= 0
  // For totals that another part counts: raises the counter to `total`; a smaller one changes
  // nothing.
  virtual void RaiseTo(double total) = 0;
  virtual double Value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual double Value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// A metric with its labels: With({"tokyo"}) is the series of those label values, in the order
// declared.
template <typename Series>
class Family {
 public:
  virtual ~Family() = default;
  virtual Series& With(std::initializer_list<std::string_view> label_values) = 0;
  // Ends a series, such as that of a forgotten run. References to it are dead after.
  virtual void Remove(std::initializer_list<std::string_view> label_values) = 0;
};

class MetricsRegistry;  // the library's, behind our own names

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

 private:
  const std::unique_ptr<MetricsRegistry> registry_;  // before the families, which are made from it

 public:
  Family<Gauge>& build_info;                  // {version, compiler}: 1
  Family<Gauge>& start_time_seconds;          // {}
  Family<Gauge>& peer_up;                     // {peer}
  Family<Gauge>& peer_rtt_seconds;            // {peer}
  Family<Gauge>& peer_lanes;                  // {peer}
  Family<Counter>& chunk_bytes;               // {peer, direction: sent|received}
  Family<Counter>& payload_bytes;             // {run, stage: submitted|encoded|received}
  Family<Counter>& chunk_retransmits;         // {peer}
  Family<Counter>& chunk_retransmit_bytes;    // {peer}
  Family<Gauge>& peer_bytes_per_second;       // {peer, direction: sent|received}
  Family<Gauge>& last_reload_ok;              // {}
  Family<Gauge>& in_flight_bytes;             // {peer}
  Family<Histogram>& round_duration_seconds;  // {run, phase: total}
  Family<Counter>& rounds;                    // {run, result: committed|excluded}
  Family<Gauge>& epoch;                       // {run}: the epoch's counter
  Family<Counter>& checkpoints;               // {run, result: written|failed}
  Family<Gauge>& checkpoint_timestamp_seconds;  // {run}: when the newest one was written
  Family<Counter>& tls_handshakes;            // {result: accepted|rejected|failed}
  Family<Counter>& authorisation_denied;      // {reason: identity|run|epoch|protocol}
  Family<Counter>& screened_updates;          // {run, reason: nonfinite|norm}
  Family<Gauge>& certificate_not_after;       // {certificate: gateway|authority|a peer's name}
  Family<Gauge>& memory_budget_bytes;         // {}
  Family<Gauge>& memory_used_bytes;           // {account}
  Family<Gauge>& trainers_attached;           // {run}
  Family<Counter>& log_lines_dropped;         // {}

  // All of the above, in this order.
  std::vector<MetricInfo> List() const;
  // The text exposition, as /metrics answers it.
  std::string Render() const;

 private:
  friend class MetricsServer;
};

// Serves GET /metrics of `metrics`, which must outlive it, on two threads of its own.
class MetricsServer {
 public:
  // `listen` is address:port as in the configuration. Unavailable when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(Metrics& metrics,
                                                              const std::string& listen);
  ~MetricsServer();
  // The port that it listens on: of use where `listen` says 0.
  int port() const;

 private:
  struct State;
  explicit MetricsServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace causeway::observe
