#include "common/metrics/metric_registry.h"

#include <exception>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "prometheus/labels.h"
#include "prometheus/text_serializer.h"

namespace stagecoach {
namespace {

prometheus::Labels LabelsOf(const MetricSpec& spec, const MetricRegistry::LabelValues& values) {
  STAGECOACH_CHECK(values.size() == spec.labels.size());
  prometheus::Labels labels;
  for (size_t i = 0; i < values.size(); ++i) labels.emplace(spec.labels[i], values[i]);
  return labels;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricRegistry>> MetricRegistry::Create(MetricSource source,
                                                                       std::span<const MetricSpec> table) {
  STAGECOACH_RETURN_IF_ERROR(CheckMetricTable(table));
  auto registry = absl::WrapUnique(new MetricRegistry);
  for (const MetricSpec& spec : table) {
    if (spec.source != source && spec.source != MetricSource::kBoth) continue;
    try {
      registry->Register(spec);
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat("metric \"", spec.name, "\": ", error.what()));
    }
  }
  return registry;
}

void MetricRegistry::Register(const MetricSpec& spec) {
  const auto build = [&](auto builder) { return &builder.Name(spec.name).Help(spec.help).Register(*registry_); };
  AnyFamily family;
  switch (spec.type) {
    case MetricType::kCounter:
      family = build(prometheus::BuildCounter());
      break;
    case MetricType::kGauge:
      family = build(prometheus::BuildGauge());
      break;
    case MetricType::kHistogram:
      family = build(prometheus::BuildHistogram());
      break;
  }
  entries_.emplace(spec.name, Entry{spec, family});
}

const MetricRegistry::Entry& MetricRegistry::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  STAGECOACH_CHECK(found != entries_.end());
  return found->second;
}

template <typename T>
prometheus::Family<T>& MetricRegistry::FamilyOf(const Entry& entry) const {
  auto* const* const family = std::get_if<prometheus::Family<T>*>(&entry.family);
  STAGECOACH_CHECK(family != nullptr);
  return **family;
}

prometheus::Counter& MetricRegistry::Counter(const std::string& name, const LabelValues& values) {
  const Entry& entry = Find(name);
  return FamilyOf<prometheus::Counter>(entry).Add(LabelsOf(entry.spec, values));
}

prometheus::Gauge& MetricRegistry::Gauge(const std::string& name, const LabelValues& values) {
  const Entry& entry = Find(name);
  return FamilyOf<prometheus::Gauge>(entry).Add(LabelsOf(entry.spec, values));
}

prometheus::Histogram& MetricRegistry::Histogram(const std::string& name, const LabelValues& values) {
  const Entry& entry = Find(name);
  return FamilyOf<prometheus::Histogram>(entry).Add(LabelsOf(entry.spec, values), entry.spec.buckets);
}

void MetricRegistry::Remove(const std::string& name, prometheus::Counter& series) {
  FamilyOf<prometheus::Counter>(Find(name)).Remove(&series);
}

void MetricRegistry::Remove(const std::string& name, prometheus::Gauge& series) {
  FamilyOf<prometheus::Gauge>(Find(name)).Remove(&series);
}

void MetricRegistry::Remove(const std::string& name, prometheus::Histogram& series) {
  FamilyOf<prometheus::Histogram>(Find(name)).Remove(&series);
}

std::string MetricRegistry::Text() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

template <typename T>
T& SeriesGroup::Keep(const std::string& name, T& series) {
  remove_.emplace(&series, [this, name, &series] { registry_.Remove(name, series); });
  return series;
}

prometheus::Counter& SeriesGroup::Counter(const std::string& name, const MetricRegistry::LabelValues& values) {
  return Keep(name, registry_.Counter(name, values));
}

prometheus::Gauge& SeriesGroup::Gauge(const std::string& name, const MetricRegistry::LabelValues& values) {
  return Keep(name, registry_.Gauge(name, values));
}

prometheus::Histogram& SeriesGroup::Histogram(const std::string& name, const MetricRegistry::LabelValues& values) {
  return Keep(name, registry_.Histogram(name, values));
}

void SeriesGroup::Clear() {
  for (const auto& [series, remove] : std::exchange(remove_, {})) remove();
}

}  // namespace stagecoach
