#include "common/trace/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "nlohmann/json.hpp"

namespace stagecoach {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Two stages, two micro-batches in flight, one step.
PipelineTrace SmallTrace() {
  PipelineTrace trace{
      .name = "tiny",
      .stages = {{.worker = 0, .worker_name = "a", .clock_error = 5e-6}, {.worker = 1, .worker_name = "b"}},
      .steps = {{7, 0, 0.010}}};
  const auto span = [&](SpanKind kind, const char* name, uint32_t stage, uint32_t micro_batch, double begin,
                        double end) {
    trace.spans.push_back({.kind = kind,
                           .name = name,
                           .stage = stage,
                           .micro_batch = micro_batch,
                           .step = 7,
                           .begin = begin,
                           .end = end});
  };
  span(SpanKind::kForward, "0F0", 0, 0, 0, 0.001);
  span(SpanKind::kForward, "0F1", 0, 1, 0.001, 0.002);
  span(SpanKind::kWait, "wait 1F0", 1, 0, 0, 0.0011);
  span(SpanKind::kForward, "1F0", 1, 0, 0.0011, 0.0021);
  span(SpanKind::kForward, "1F1", 1, 1, 0.0021, 0.0031);
  span(SpanKind::kBackwardInput, "1I0", 1, 0, 0.0031, 0.004);
  span(SpanKind::kBackwardInput, "0I0", 0, 0, 0.005, 0.006);
  const auto transfer = [&](const char* name, uint32_t stage, bool sent, uint32_t micro_batch, double begin,
                            double end) {
    trace.transfers.push_back({.kind = TraceTransfer::Kind::kActivation,
                               .name = name,
                               .stage = stage,
                               .peer_stage = 1 - stage,
                               .sent = sent,
                               .micro_batch = micro_batch,
                               .step = 7,
                               .bytes = 4096,
                               .begin = begin,
                               .end = end});
  };
  transfer("1RECV_F0", 1, false, 0, 0.0000, 0.0011);
  transfer("1RECV_F1", 1, false, 1, 0.0001, 0.0021);
  transfer("0SEND_F0", 0, true, 0, 0.0010, 0.0011);
  transfer("0SEND_F1", 0, true, 1, 0.0020, 0.0021);
  return trace;
}

json Written(const PipelineTrace& trace) {
  std::ostringstream out;
  WriteChromeTrace(trace, out);
  return json::parse(out.str());
}

std::vector<json> EventsOf(const json& document, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == phase) events.push_back(event);
  }
  return events;
}

std::map<std::pair<int, int>, std::string> ThreadNames(const json& document) {
  std::map<std::pair<int, int>, std::string> names;
  for (const json& event : EventsOf(document, "M")) {
    if (event["name"] == "thread_name") names[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  return names;
}

json Named(const std::vector<json>& events, const std::string& name) {
  for (const json& event : events) {
    if (event["name"] == name) return event;
  }
  return json();
}

TEST(ChromeTraceTest, AStageIsAProcessAndATransferHasATrackOfItsOwn) {
  const json document = Written(SmallTrace());
  std::map<int, std::string> processes;
  for (const json& event : EventsOf(document, "M")) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
  }
  EXPECT_THAT(processes, ElementsAre(std::pair(1, "stage 0 (a)"), std::pair(2, "stage 1 (b)"), std::pair(3, "tiny")));
  EXPECT_THAT(
      ThreadNames(document),
      ElementsAre(std::pair(std::pair(1, 1), "compute"), std::pair(std::pair(1, 2), "send activations to stage 1"),
                  std::pair(std::pair(2, 1), "compute"), std::pair(std::pair(2, 2), "receive activations of stage 0"),
                  std::pair(std::pair(2, 3), "receive activations of stage 0 (2)"),
                  std::pair(std::pair(3, 1), "steps")));
}

TEST(ChromeTraceTest, SkipEdgesHaveTracksOfTheirOwn) {
  PipelineTrace trace = SmallTrace();
  for (const TraceTransfer::Kind kind : {TraceTransfer::Kind::kSkipGradient, TraceTransfer::Kind::kSkip}) {
    trace.transfers.push_back({.kind = kind, .name = "0SEND_F0", .peer_stage = 1, .sent = true});
  }
  const std::map<std::pair<int, int>, std::string> names = ThreadNames(Written(trace));
  EXPECT_EQ(names.at({1, 2}), "send activations to stage 1");
  EXPECT_EQ(names.at({1, 3}), "send skipped activations to stage 1");
  EXPECT_EQ(names.at({1, 4}), "send skipped gradients to stage 1");
}

TEST(ChromeTraceTest, SpansHaveTheirTimesInMicroseconds) {
  const std::vector<json> spans = EventsOf(Written(SmallTrace()), "X");
  const json forward = Named(spans, "1F0");
  EXPECT_EQ(forward["ts"], 1100.0);
  EXPECT_EQ(forward["dur"], 1000.0);
  EXPECT_EQ(forward["pid"], 2);
  EXPECT_EQ(forward["tid"], 1);
  EXPECT_EQ(forward["cat"], "forward");
  EXPECT_EQ(forward["args"], json({{"step", 7}, {"micro_batch", 0}}));
  EXPECT_EQ(Named(spans, "wait 1F0")["cat"], "p2p_wait");
  EXPECT_EQ(Named(spans, "step 7")["dur"], 10'000.0);
  EXPECT_EQ(Named(spans, "1RECV_F1")["args"], json({{"step", 7}, {"micro_batch", 1}, {"bytes", 4096}}));
}

TEST(ChromeTraceTest, TransfersThatOverlapAreOnTracksOfTheirOwn) {
  const std::vector<json> spans = EventsOf(Written(SmallTrace()), "X");
  EXPECT_NE(Named(spans, "1RECV_F0")["tid"], Named(spans, "1RECV_F1")["tid"]);
  EXPECT_EQ(Named(spans, "0SEND_F0")["tid"], Named(spans, "0SEND_F1")["tid"]);
}

TEST(ChromeTraceTest, ATransferThatWasCutOffSaysSo) {
  PipelineTrace trace = SmallTrace();
  trace.transfers[1].complete = false;
  EXPECT_EQ(Named(EventsOf(Written(trace), "X"), "1RECV_F1")["args"]["complete"], false);
}

TEST(ChromeTraceTest, FlowsBindWithinTheSpansOfTheirMicroBatch) {
  const json document = Written(SmallTrace());
  std::map<std::string, std::vector<std::string>> phases;  // by flow
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] != "s" && event["ph"] != "t" && event["ph"] != "f") continue;
    EXPECT_EQ(event["name"], "micro-batch");
    EXPECT_EQ(event.contains("bp"), event["ph"] == "f");
    phases[event["id"]].push_back(event["ph"]);
  }
  EXPECT_THAT(phases, ElementsAre(std::pair("step 7, micro-batch 0", std::vector<std::string>{"s", "t", "t", "f"}),
                                  std::pair("step 7, micro-batch 1", std::vector<std::string>{"s", "f"})));
  EXPECT_EQ(EventsOf(document, "s")[0]["ts"], 500.0);  // the middle of 0F0
}

TEST(ChromeTraceTest, EventsAreInTheOrderOfTime) {
  double last = -1;
  const json document = Written(SmallTrace());
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), last);
    last = event["ts"];
  }
}

// Sums of a begin and a duration, as a viewer makes them.
TEST(ChromeTraceTest, SpansThatTouchDoNotOverlapOnceTheyAreRounded) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}}};
  double begin = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    const double end = begin + 1e-5 / 3 + i * 1e-9 / 7;
    trace.spans.push_back({.name = "x", .stage = 0, .step = 1, .begin = begin, .end = end});
    begin = end;
  }
  int64_t last_end = 0;
  for (const json& event : EventsOf(Written(trace), "X")) {
    const auto nanoseconds = [&](const char* key) { return std::llround(event[key].get<double>() * 1e3); };
    EXPECT_EQ(nanoseconds("ts"), last_end);
    last_end = nanoseconds("ts") + nanoseconds("dur");
  }
}

TEST(ChromeTraceTest, OtherDataSaysWhatIsMissingAndHowBusyStagesWere) {
  PipelineTrace trace = SmallTrace();
  trace.stages.push_back({.worker = 2, .worker_name = "c", .missing = "it has not answered in time"});
  trace.notes = {"a note"};
  const json other = Written(trace)["otherData"];
  EXPECT_EQ(other["name"], "tiny");
  EXPECT_EQ(other["notes"], json({"a note"}));
  EXPECT_EQ(other["stages"][0], json({{"worker", "a"}, {"worker_rank", 0}, {"clock_error_seconds", 5e-6}}));
  EXPECT_EQ(other["stages"][2]["missing"], "it has not answered in time");
  EXPECT_NEAR(other["steps"][0]["stage_utilization"][0].get<double>(), 0.3, 1e-12);
  EXPECT_TRUE(other["steps"][0]["stage_utilization"][2].is_null());
  EXPECT_EQ(other["steps"][0]["step_seconds"], 0.010);
}

TEST(ChromeTraceTest, NamesMayHaveAnyBytes) {
  PipelineTrace trace = SmallTrace();
  trace.name = "\"\xff\n";
  EXPECT_NO_THROW(Written(trace));
}

TEST(ChromeTraceTest, AnEmptyTraceIsADocument) { EXPECT_TRUE(EventsOf(Written({.name = "none"}), "X").empty()); }

}  // namespace
}  // namespace stagecoach
