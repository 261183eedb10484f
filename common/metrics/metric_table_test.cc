#include "common/metrics/metric_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace stagecoach {
namespace {

using testing::HasSubstr;

const MetricSpec kGood = {.name = "stagecoach_things_total",
                          .type = MetricType::kCounter,
                          .labels = {"run", "state"},
                          .unit = "",
                          .help = "Things.",
                          .source = MetricSource::kBoth,
                          .buckets = {}};

absl::Status Check(const MetricSpec& metric) { return CheckMetricTable({&metric, 1}); }

MetricSpec With(std::function<void(MetricSpec&)> change) {
  MetricSpec metric = kGood;
  change(metric);
  return metric;
}

TEST(MetricTableTest, IsValid) {
  EXPECT_TRUE(CheckMetricTable(MetricTable()).ok()) << CheckMetricTable(MetricTable());
  EXPECT_TRUE(Check(kGood).ok());
}

TEST(MetricTableTest, RefusesWhatBreaksTheRules) {
  const MetricSpec bad[] = {
      With([](MetricSpec& m) { m.name = "things_total"; }),
      With([](MetricSpec& m) { m.name = "stagecoach_:things_total"; }),
      With([](MetricSpec& m) { m.name = "stagecoach_things"; }),              // a counter
      With([](MetricSpec& m) { m.type = MetricType::kGauge; }),               // ends _total
      With([](MetricSpec& m) { m.name = "stagecoach_things_bytes_total"; }),  // without that unit
      With([](MetricSpec& m) { m.unit = "seconds"; }),                        // without that name
      With([](MetricSpec& m) { m.help = ""; }),
      With([](MetricSpec& m) { m.help = "Two\nlines."; }),  // would break the whole scrape
      With([](MetricSpec& m) { m.labels = {"step"}; }),     // as many series as steps
      With([](MetricSpec& m) {
        m.labels = {"run", "run"};
      }),
      With([](MetricSpec& m) { m.buckets = {1}; }),  // of no histogram
      With([](MetricSpec& m) { m = {"stagecoach_t_seconds", MetricType::kHistogram, {}, "seconds", "T.", {}, {}}; }),
      With([](MetricSpec& m) {
        m = {"stagecoach_t_seconds", MetricType::kHistogram, {}, "seconds", "T.", {}, {2, 1}};
      }),
  };
  for (const MetricSpec& metric : bad) {
    EXPECT_EQ(Check(metric).code(), absl::StatusCode::kInvalidArgument) << metric.name << ": " << metric.help;
  }
}

TEST(MetricTableTest, RefusesANameThatIsThereTwice) {
  const MetricSpec twice[] = {kGood, kGood};
  EXPECT_THAT(CheckMetricTable(twice).ToString(), HasSubstr("twice"));
}

// The documentation is generated from the table: when this fails, put the text that it prints between the two lines.
TEST(MetricTableTest, IsWhatTheDocumentationSays) {
  std::ostringstream text;
  text << std::ifstream(STAGECOACH_SOURCE_DIR "/docs/metrics.md").rdbuf();
  const std::string begin = "<!-- generated from common/metrics/metric_table.cc -->\n", end = "<!-- end -->\n";
  const size_t first = text.str().find(begin), last = text.str().find(end);
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(last, std::string::npos);
  const size_t start = first + begin.size();
  EXPECT_EQ(text.str().substr(start, last - start), MetricTableText(MetricTable()));
}

}  // namespace
}  // namespace stagecoach
