// The daemon's Prometheus metrics as typed members, and the HTTP endpoint that serves them.
//
// Threads: every method from any thread; a series costs one lock on first use and an atomic after.
// Keep the reference that With() returns: it lives as long as the Metrics. Labels are configured
// names (peers, runs) and fixed words only, never addresses or round numbers; a metric holds at
// most kSeriesMax series, later ones share the series whose labels are all "other". Does not:
// collect by itself; whoever owns a number sets it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace causeway::observe {

inline constexpr size_t kSeriesMax = 1024;

enum class MetricKind { kCounter, kGauge, kHistogram };

// What a metric is called and means; Metrics::List gives all of them.
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
  virtual const MetricInfo& info() const = 0;
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

 private:
  struct Registry;
  std::unique_ptr<Registry> registry_;  // before the members, which are made from it

  template <typename Series>
  using Owned = std::unique_ptr<Family<Series>>;

 public:
  const Owned<Gauge> build_info;           // {version, compiler}: 1
  const Owned<Gauge> start_time_seconds;   // {}
  const Owned<Gauge> peer_up;              // {peer}
  const Owned<Gauge> peer_rtt_seconds;     // {peer}
  const Owned<Gauge> peer_lanes;           // {peer}
  const Owned<Counter> wire_bytes;         // {peer, direction: sent|received}
  const Owned<Counter> payload_bytes;      // {run, stage: submitted|encoded|received|delivered}
  const Owned<Counter> chunk_retransmits;  // {peer}
  const Owned<Gauge> in_flight_bytes;      // {peer}
  const Owned<Histogram> round_duration_seconds;  // {run, phase: encode|exchange|complete|total}
  const Owned<Counter> rounds;                    // {run, result: committed|excluded|aborted}
  const Owned<Gauge> epoch;                       // {run}: the epoch's counter
  const Owned<Gauge> quantisation_error_ratio;    // {run}: |lost| / |sent|, L2, of the newest round
  const Owned<Counter> tls_handshakes;            // {result: accepted|rejected|failed}
  const Owned<Counter> authorisation_denied;      // {reason: identity|run|epoch|protocol}
  const Owned<Counter> screened_updates;          // {run, reason: nonfinite|norm}
  const Owned<Gauge>
      certificate_not_after;  // {certificate: gateway|authority|<peer>}: unix seconds
  const Owned<Gauge> config_last_reload_ok;  // {}
  const Owned<Gauge> memory_budget_bytes;    // {}
  const Owned<Gauge> memory_used_bytes;      // {account}
  const Owned<Gauge> trainers_attached;      // {run}
  const Owned<Counter> log_lines_dropped;    // {}

  std::vector<MetricInfo> List() const;
  // The text exposition, as /metrics answers it.
  std::string Render() const;

 private:
  friend class MetricsServer;
};

// Serves GET /metrics of `metrics`, which must outlive it, on threads of its own.
class MetricsServer {
 public:
  // `listen` is host:port as in the configuration. Unavailable when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(Metrics& metrics,
                                                              const std::string& listen);
  ~MetricsServer();

 private:
  struct State;
  explicit MetricsServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace causeway::observe
