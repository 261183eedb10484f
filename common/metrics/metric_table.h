#ifndef STAGECOACH_COMMON_METRICS_METRIC_TABLE_H_
#define STAGECOACH_COMMON_METRICS_METRIC_TABLE_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace stagecoach {

enum class MetricType { kCounter, kGauge, kHistogram };
enum class MetricSource { kCoordinator, kWorker, kBoth };

// One metric as both daemons and the documentation have it.
struct MetricSpec {
  std::string name;
  MetricType type = MetricType::kGauge;
  std::vector<std::string> labels;  // in the order in which their values are given
  std::string unit;                 // "seconds", "bytes", "ratio", or empty: a number
  std::string help;                 // one line
  MetricSource source = MetricSource::kCoordinator;
  std::vector<double> buckets;  // of a histogram, ascending
};

// Every metric that there is: what is not here cannot be exported.
std::span<const MetricSpec> MetricTable();

// INVALID_ARGUMENT, naming the metric: a name, label or unit that breaks the rules of docs/metrics.md, a help text that
// would break a scrape, buckets that are none, or a name that is there twice.
absl::Status CheckMetricTable(std::span<const MetricSpec> table);

// The table of docs/metrics.md, in Markdown.
std::string MetricTableText(std::span<const MetricSpec> table);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_METRICS_METRIC_TABLE_H_
