// The one list of metrics.
#include "daemon/observe/metrics.h"

#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/observe/metrics_registry.h"

namespace causeway::observe {
namespace {

// From a round on a LAN to one of many GB over a slow link.
const std::vector<double>& DurationBounds() {
  static const auto* const bounds = new std::vector<double>{
      0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800};
  return *bounds;
}

}  // namespace

Metrics::Metrics()
    : registry_(std::make_unique<MetricsRegistry>()),
      build_info(registry_->AddGauge("build_info", "Always 1; the labels say which build this is.",
                                     {"version", "compiler"})),
      start_time_seconds(registry_->AddGauge(
          "start_time_seconds", "When the daemon started, in seconds of the Unix clock.", {})),
      peer_up(registry_->AddGauge("peer_up", "1 while the link to the peer is up.", {"peer"})),
      peer_rtt_seconds(registry_->AddGauge(
          "peer_rtt_seconds", "Round trip of the newest heartbeat to the peer.", {"peer"})),
      peer_lanes(
          registry_->AddGauge("peer_lanes", "Lanes to the peer that are connected.", {"peer"})),
      chunk_bytes(registry_->AddCounter(
          "chunk_bytes_total", "Encoded chunk bytes exchanged with the peer, resends included.",
          {"peer", "direction"})),
      payload_bytes(registry_->AddCounter("payload_bytes_total",
                                          "Bytes of tensors and chunks by stage of a round.",
                                          {"run", "stage"})),
      chunk_retransmits(registry_->AddCounter("chunk_retransmits_total",
                                              "Chunks sent to the peer again because a lane broke.",
                                              {"peer"})),
      chunk_retransmit_bytes(
          registry_->AddCounter("chunk_retransmit_bytes_total",
                                "Bytes of the chunks that were sent to the peer again.", {"peer"})),
      peer_bytes_per_second(registry_->AddGauge(
          "peer_bytes_per_second", "What the path to the peer carries when chunks wait for it.",
          {"peer", "direction"})),
      last_reload_ok(registry_->AddGauge(
          "last_reload_ok", "1 where the newest reload took effect, 0 where it was refused.", {})),
      in_flight_bytes(registry_->AddGauge(
          "in_flight_bytes", "Bytes sent to the peer and not yet acknowledged.", {"peer"})),
      round_duration_seconds(registry_->AddHistogram("round_duration_seconds",
                                                     "How long rounds took, by phase.",
                                                     {"run", "phase"}, DurationBounds())),
      rounds(registry_->AddCounter("rounds_total", "Rounds by how they ended for this cluster.",
                                   {"run", "result"})),
      epoch(registry_->AddGauge("epoch", "Number of the run's installed membership.", {"run"})),
      checkpoints(registry_->AddCounter("checkpoints_total", "Checkpoints of fragments by result.",
                                        {"run", "result"})),
      checkpoint_timestamp_seconds(registry_->AddGauge(
          "checkpoint_timestamp_seconds",
          "When the newest checkpoint was written, in seconds of the Unix clock.", {"run"})),
      tls_handshakes(registry_->AddCounter("tls_handshakes_total",
                                           "TLS handshakes of gateways by result.", {"result"})),
      authorisation_denied(
          registry_->AddCounter("authorisation_denied_total",
                                "Requests of authenticated peers that were refused.", {"reason"})),
      screened_updates(registry_->AddCounter(
          "screened_updates_total", "Contributions that screening kept out.", {"run", "reason"})),
      certificate_not_after(registry_->AddGauge(
          "certificate_not_after_timestamp_seconds",
          "When the certificate expires, in seconds of the Unix clock.", {"certificate"})),
      memory_budget_bytes(
          registry_->AddGauge("memory_budget_bytes", "The most that buffers may take.", {})),
      memory_used_bytes(
          registry_->AddGauge("memory_used_bytes", "What buffers take, by account.", {"account"})),
      trainers_attached(registry_->AddGauge("trainers_attached",
                                            "Trainer processes that are attached.", {"run"})),
      log_lines_dropped(registry_->AddCounter(
          "log_lines_dropped_total", "Log lines lost because their reader did not keep up.", {})) {}

Metrics::~Metrics() = default;

std::vector<MetricInfo> Metrics::List() const { return registry_->infos(); }

std::string Metrics::Render() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, registry_->collectable()->Collect());
  return out.str();
}

// Each serves one connection until its request is there or timed out, so as many half-open ones
// hold up nobody.
constexpr char kServingThreads[] = "16";

struct MetricsServer::State {
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsServer::MetricsServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(Metrics& metrics,
                                                                    const std::string& listen) {
  auto state = std::make_unique<State>();
  try {
    state->exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", listen, "num_threads", kServingThreads, "request_timeout_ms", "5000"});
    state->exposer->RegisterCollectable(metrics.registry_->collectable());
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("metrics.listen ", listen, " cannot be bound (", error.what(),
                     "); is another process on that port? `ss -ltnp` shows it"));
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(state)));
}

int MetricsServer::port() const {
  const std::vector<int> ports = state_->exposer->GetListeningPorts();
  return ports.empty() ? 0 : ports.front();
}

}  // namespace causeway::observe
