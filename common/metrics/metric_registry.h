#ifndef STAGECOACH_COMMON_METRICS_METRIC_REGISTRY_H_
#define STAGECOACH_COMMON_METRICS_METRIC_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/metrics/metric_table.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace stagecoach {

// The metrics of one daemon. A series is made when it is first asked for, by a name of the table and the values of its
// labels in the table's order; another name, type or number of labels is a broken invariant. Thread-safe, and so are
// the series.
class MetricRegistry {
 public:
  using LabelValues = std::vector<std::string>;

  // Checks the table, and registers the metrics of `source` and of both. INVALID_ARGUMENT: as CheckMetricTable.
  static absl::StatusOr<std::unique_ptr<MetricRegistry>> Create(MetricSource source,
                                                                std::span<const MetricSpec> table = MetricTable());

  prometheus::Counter& Counter(const std::string& name, const LabelValues& values = {});
  prometheus::Gauge& Gauge(const std::string& name, const LabelValues& values = {});
  prometheus::Histogram& Histogram(const std::string& name, const LabelValues& values = {});
  // Series that were asked for; gone with the next scrape.
  void Remove(const std::string& name, prometheus::Counter& series);
  void Remove(const std::string& name, prometheus::Gauge& series);
  void Remove(const std::string& name, prometheus::Histogram& series);

  // What a scrape reads.
  const std::shared_ptr<prometheus::Registry>& collectable() const { return registry_; }
  // A scrape's text, for tests.
  std::string Text() const;

 private:
  using AnyFamily = std::variant<prometheus::Family<prometheus::Counter>*, prometheus::Family<prometheus::Gauge>*,
                                 prometheus::Family<prometheus::Histogram>*>;
  struct Entry {
    MetricSpec spec;
    AnyFamily family;
  };

  MetricRegistry() = default;
  void Register(const MetricSpec& spec);
  const Entry& Find(const std::string& name) const;
  template <typename T>
  prometheus::Family<T>& FamilyOf(const Entry& entry) const;

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::map<std::string, Entry> entries_;  // constant after Create
};

// Series that end together, those of a run for one: removed when the group is destroyed. No two groups may have the
// same series at a time. Used by one thread.
class SeriesGroup {
 public:
  explicit SeriesGroup(MetricRegistry& registry) : registry_(registry) {}
  ~SeriesGroup() { Clear(); }
  SeriesGroup(const SeriesGroup&) = delete;
  SeriesGroup& operator=(const SeriesGroup&) = delete;

  prometheus::Counter& Counter(const std::string& name, const MetricRegistry::LabelValues& values);
  prometheus::Gauge& Gauge(const std::string& name, const MetricRegistry::LabelValues& values);
  prometheus::Histogram& Histogram(const std::string& name, const MetricRegistry::LabelValues& values);
  void Clear();

 private:
  template <typename T>
  T& Keep(const std::string& name, T& series);

  MetricRegistry& registry_;
  std::map<const void*, std::function<void()>> remove_;  // by series
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_METRICS_METRIC_REGISTRY_H_
