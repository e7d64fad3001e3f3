#include "daemon/observe/metrics_registry.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace causeway::observe {
namespace {

constexpr size_t kLabelValueBytesMax = 128;

class CounterSeries : public Counter {
 public:
  using Library = prometheus::Counter;
  explicit CounterSeries(Library& library) : library_(library) {}

  void Add(double amount) override {
    assert(amount >= 0);
    absl::MutexLock lock(&mutex_);
    library_.Increment(amount);
  }
  void RaiseTo(double total) override {
    absl::MutexLock lock(&mutex_);
    if (const double more = total - library_.Value(); more > 0) library_.Increment(more);
  }
  double Value() const override { return library_.Value(); }
  Library& library() { return library_; }

 private:
  absl::Mutex mutex_;  // makes RaiseTo's read and write one step
  Library& library_;
};

class GaugeSeries : public Gauge {
 public:
  using Library = prometheus::Gauge;
  explicit GaugeSeries(Library& library) : library_(library) {}

  void Set(double value) override { library_.Set(value); }
  double Value() const override { return library_.Value(); }
  Library& library() { return library_; }

 private:
  Library& library_;
};

class HistogramSeries : public Histogram {
 public:
  using Library = prometheus::Histogram;
  explicit HistogramSeries(Library& library) : library_(library) {}

  void Observe(double value) override { library_.Observe(value); }
  Library& library() { return library_; }

 private:
  Library& library_;
};

// Args are what the library's series is made with: a histogram's bounds.
template <typename Series, typename Impl, typename... Args>
class FamilyImpl : public Family<Series> {
 public:
  FamilyImpl(prometheus::Family<typename Impl::Library>& library, std::vector<std::string> labels,
             Args... args)
      : library_(library), labels_(std::move(labels)), args_(std::move(args)...) {}

  Series& With(std::initializer_list<std::string_view> label_values) override {
    std::vector<std::string> values = Key(label_values);
    absl::MutexLock lock(&mutex_);
    auto found = series_.find(values);
    if (found == series_.end() && series_.size() >= kSeriesMax) {
      values.assign(labels_.size(), "other");
      found = series_.find(values);
    }
    if (found == series_.end()) {
      found = series_.emplace(values, std::make_unique<Impl>(Make(values))).first;
    }
    return *found->second;
  }

  void Remove(std::initializer_list<std::string_view> label_values) override {
    absl::MutexLock lock(&mutex_);
    const auto found = series_.find(Key(label_values));
    if (found == series_.end()) return;
    library_.Remove(&found->second->library());
    series_.erase(found);
  }

 private:
  std::vector<std::string> Key(std::initializer_list<std::string_view> values) const {
    assert(values.size() == labels_.size());
    std::vector<std::string> key;
    for (const std::string_view value : values) {
      key.emplace_back(value.substr(0, kLabelValueBytesMax));
    }
    return key;
  }

  typename Impl::Library& Make(const std::vector<std::string>& values) {
    prometheus::Labels labels;
    for (size_t i = 0; i < labels_.size(); ++i) labels[labels_[i]] = values[i];
    return std::apply(
        [&](const Args&... args) -> auto& { return library_.Add(labels, args...); }, args_);
  }

  prometheus::Family<typename Impl::Library>& library_;
  const std::vector<std::string> labels_;
  const std::tuple<Args...> args_;
  absl::Mutex mutex_;
  std::map<std::vector<std::string>, std::unique_ptr<Impl>> series_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

MetricsRegistry::MetricsRegistry() : registry_(std::make_shared<prometheus::Registry>()) {}
MetricsRegistry::~MetricsRegistry() = default;

MetricInfo& MetricsRegistry::Note(std::string name, std::string help, MetricKind kind,
                                  std::vector<std::string> labels) {
  name = absl::StrCat("causeway_", name);
  assert(std::none_of(infos_.begin(), infos_.end(),
                      [&](const MetricInfo& info) { return info.name == name; }));
  infos_.push_back({std::move(name), std::move(help), kind, std::move(labels)});
  return infos_.back();
}

Family<Counter>& MetricsRegistry::AddCounter(std::string name, std::string help,
                                             std::vector<std::string> labels) {
  const MetricInfo& info =
      Note(std::move(name), std::move(help), MetricKind::kCounter, std::move(labels));
  auto& library = prometheus::BuildCounter().Name(info.name).Help(info.help).Register(*registry_);
  counters_.push_back(std::make_unique<FamilyImpl<Counter, CounterSeries>>(library, info.labels));
  return *counters_.back();
}

Family<Gauge>& MetricsRegistry::AddGauge(std::string name, std::string help,
                                         std::vector<std::string> labels) {
  const MetricInfo& info =
      Note(std::move(name), std::move(help), MetricKind::kGauge, std::move(labels));
  auto& library = prometheus::BuildGauge().Name(info.name).Help(info.help).Register(*registry_);
  gauges_.push_back(std::make_unique<FamilyImpl<Gauge, GaugeSeries>>(library, info.labels));
  return *gauges_.back();
}

Family<Histogram>& MetricsRegistry::AddHistogram(std::string name, std::string help,
                                                 std::vector<std::string> labels,
                                                 std::vector<double> bounds) {
  const MetricInfo& info =
      Note(std::move(name), std::move(help), MetricKind::kHistogram, std::move(labels));
  auto& library = prometheus::BuildHistogram().Name(info.name).Help(info.help).Register(*registry_);
  histograms_.push_back(
      std::make_unique<FamilyImpl<Histogram, HistogramSeries, std::vector<double>>>(
          library, info.labels, std::move(bounds)));
  return *histograms_.back();
}

}  // namespace causeway::observe
