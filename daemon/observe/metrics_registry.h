// Families on top of prometheus-cpp: label order, the bound on series, counters that follow a
// total.
//
// Threads: as metrics.h says. Included by metrics.cc and its server only.
#pragma once

#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/observe/metrics.h"

namespace causeway::observe {

class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();

  // Each name once; "causeway_" goes before it.
  Family<Counter>& AddCounter(std::string name, std::string help, std::vector<std::string> labels);
  Family<Gauge>& AddGauge(std::string name, std::string help, std::vector<std::string> labels);
  Family<Histogram>& AddHistogram(std::string name, std::string help,
                                  std::vector<std::string> labels, std::vector<double> bounds);

  const std::vector<MetricInfo>& infos() const { return infos_; }
  std::shared_ptr<prometheus::Registry> collectable() const { return registry_; }

 private:
  template <typename Series>
  using Families = std::vector<std::unique_ptr<Family<Series>>>;

  MetricInfo& Note(std::string name, std::string help, MetricKind kind,
                   std::vector<std::string> labels);

  std::shared_ptr<prometheus::Registry>
      registry_;  // shared: the HTTP server keeps a weak reference
  std::vector<MetricInfo> infos_;
  Families<Counter> counters_;
  Families<Gauge> gauges_;
  Families<Histogram> histograms_;
};

}  // namespace causeway::observe
