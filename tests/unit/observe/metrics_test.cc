// Names by Prometheus' rules, values, bounds, and the HTTP endpoint.
#include "daemon/observe/metrics.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace causeway::observe {
namespace {

bool IsName(const std::string& name) {
  return !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

bool Has(const std::string& name, const std::string& part) {
  return name.find(part) != std::string::npos;
}

TEST_CASE("metrics keep the rules of promtool's lint") {
  const Metrics metrics;
  std::set<std::string> names;
  REQUIRE(metrics.List().size() >= 20);
  for (const MetricInfo& info : metrics.List()) {
    INFO(info.name);
    CHECK(IsName(info.name));
    CHECK(info.name.rfind("causeway_", 0) == 0);
    CHECK(names.insert(info.name).second);
    CHECK(info.help.size() > 10);
    CHECK(info.help.ends_with('.'));
    CHECK(info.name.ends_with("_total") == (info.kind == MetricKind::kCounter));
    for (const char* reserved : {"_count", "_sum", "_bucket"}) {
      CHECK_FALSE(info.name.ends_with(reserved));
    }
    for (const char* unit : {"_ms", "millis", "micros", "minutes", "hours", "_kb", "kilobytes",
                             "mebibytes", "_bits", "percent"}) {  // base units only
      CHECK_FALSE(Has(info.name, unit));
    }
    for (const char* type : {"counter", "gauge", "histogram"}) CHECK_FALSE(Has(info.name, type));
    for (const std::string& label : info.labels) {
      CHECK(IsName(label));
      CHECK(label != "le");
      CHECK(label != "job");
      CHECK(label != "instance");
      CHECK_FALSE(Has(info.name, "_by_" + label));
    }
  }
}

TEST_CASE("what operators expect is there") {
  const Metrics metrics;
  std::set<std::string> names;
  for (const MetricInfo& info : metrics.List()) names.insert(info.name);
  for (const char* name : {"build_info", "peer_up", "peer_rtt_seconds", "peer_lanes",
                           "chunk_bytes_total", "payload_bytes_total", "chunk_retransmits_total",
                           "in_flight_bytes", "round_duration_seconds", "rounds_total", "epoch",
                           "tls_handshakes_total", "authorisation_denied_total",
                           "screened_updates_total", "certificate_not_after_timestamp_seconds",
                           "memory_budget_bytes", "memory_used_bytes", "trainers_attached"}) {
    CHECK(names.count(std::string("causeway_") + name) == 1);
  }
}

TEST_CASE("values and labels") {
  Metrics metrics;
  metrics.peer_up.With({"tokyo"}).Set(1);
  metrics.peer_up.With({"oslo"}).Set(0);
  metrics.chunk_bytes.With({"tokyo", "sent"}).Add(10);
  metrics.chunk_bytes.With({"tokyo", "sent"}).Add(5);
  metrics.round_duration_seconds.With({"demo", "total"}).Observe(0.3);
  metrics.start_time_seconds.With({}).Set(1e9);
  const std::string text = metrics.Render();
  CHECK(Has(text, "# TYPE causeway_peer_up gauge\n"));
  CHECK(Has(text, "causeway_peer_up{peer=\"tokyo\"} 1\n"));
  CHECK(Has(text, "causeway_chunk_bytes_total{direction=\"sent\",peer=\"tokyo\"} 15\n"));
  CHECK(Has(text, "le=\"0.5\"} 1\n"));
  CHECK(Has(text, "le=\"0.2\"} 0\n"));
  CHECK(Has(text, "causeway_start_time_seconds 1000000000\n"));
  metrics.peer_up.Remove({"oslo"});
  CHECK_FALSE(Has(metrics.Render(), "oslo"));
}

TEST_CASE("a counter follows another total and never falls") {
  Metrics metrics;
  Counter& counter = metrics.chunk_retransmits.With({"tokyo"});
  counter.RaiseTo(7);
  counter.RaiseTo(5);
  CHECK(counter.Value() == 7);
  counter.RaiseTo(9);
  CHECK(counter.Value() == 9);
}

TEST_CASE("label values that try to forge") {
  Metrics metrics;
  metrics.peer_up.With({"a\"} 1\ncauseway_evil 1"}).Set(1);
  CHECK_FALSE(Has(metrics.Render(), "\ncauseway_evil"));
}

TEST_CASE("series are bounded") {
  Metrics metrics;
  for (size_t i = 0; i < kSeriesMax + 500; ++i) {
    metrics.peer_up.With({"peer" + std::to_string(i)}).Set(1);
  }
  const std::string text = metrics.Render();
  CHECK(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) <= kSeriesMax + 5);
  CHECK(Has(text, "{peer=\"other\"} 1\n"));
}

int Connect(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return descriptor;
}

std::string Get(int port) {
  const int descriptor = Connect(port);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  REQUIRE(write(descriptor, request.data(), request.size()) ==
          static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(descriptor, buffer, sizeof(buffer))) > 0;) {
    reply.append(buffer, static_cast<size_t>(n));
  }
  close(descriptor);
  return reply;
}

TEST_CASE("the endpoint") {
  Metrics metrics;
  metrics.peer_up.With({"tokyo"}).Set(1);
  const auto server = MetricsServer::Start(metrics, "127.0.0.1:0");
  REQUIRE(server.ok());
  const std::string reply = Get((*server)->port());
  CHECK(reply.rfind("HTTP/1.", 0) == 0);
  CHECK(Has(reply, " 200 OK"));
  CHECK(Has(reply, "causeway_peer_up{peer=\"tokyo\"} 1\n"));

  // Requests that never end keep theirs from nobody.
  std::vector<int> half_open;
  for (int i = 0; i < 12; ++i) {
    half_open.push_back(Connect((*server)->port()));
    REQUIRE(write(half_open.back(), "GET /", 5) == 5);
  }
  CHECK(Has(Get((*server)->port()), " 200 OK"));
  size_t waiting = 0;  // not timed out yet, so the scrape did not wait for them one after the other
  for (int descriptor : half_open) {
    char byte = 0;
    waiting += recv(descriptor, &byte, 1, MSG_DONTWAIT) < 0 ? 1 : 0;
    close(descriptor);
  }
  CHECK(waiting >= half_open.size() / 2);

  const std::string taken = "127.0.0.1:" + std::to_string((*server)->port());
  const auto second = MetricsServer::Start(metrics, taken);
  REQUIRE(absl::IsUnavailable(second.status()));
  CHECK(Has(std::string(second.status().message()), taken));
}

}  // namespace
}  // namespace causeway::observe
