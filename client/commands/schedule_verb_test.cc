#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/commands/testing/command_line_test.h"
#include "client/output/json.h"
#include "common/file_system.h"
#include "coordinator/schedule/schedule.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class ScheduleVerbTest : public CommandLineTest {
 protected:
  static Result RunVerb(const std::string& verb, std::vector<std::string> more = {},
                        const std::string& schedule = "1f1b") {
    std::vector<std::string> words = {"schedule", verb, "--schedule",      schedule,
                                      "--stages", "4",  "--micro-batches", "8"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
  static Json Simulated(std::vector<std::string> more, const std::string& schedule = "1f1b") {
    more.insert(more.end(), {"-o", "json"});
    const Result result = RunVerb("simulate", more, schedule);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out);
  }
  // The message of a command line that is refused.
  static std::string Refused(const Result& result) {
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(result.out, "");
    return result.err;
  }
  static std::string ErrorIn(const Result& result) {
    return Json::parse(result.out)["error"]["message"].get<std::string>();
  }
  std::string FileOf(const std::string& text) const {
    const std::string path = directory_.Path("program.csv");
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Posix(), path, text).ok());
    return path;
  }
};

TEST_F(ScheduleVerbTest, ListNamesEverySchedule) {
  const Result names = Run({"schedule", "list", "-q"});
  EXPECT_EQ(names.code, 0);
  for (const Schedule* schedule : AllSchedules()) {
    EXPECT_THAT(names.out, HasSubstr(std::string(schedule->name()) + "\n"));
    EXPECT_THAT(Run({"schedule", "list"}).out, HasSubstr(std::string(schedule->description())));
  }
}

TEST_F(ScheduleVerbTest, ShowPrintsPyTorchsTable) {
  EXPECT_EQ(Run({"schedule", "show", "--schedule", "1f1b", "--stages", "2", "--micro-batches", "2", "-o", "csv"}).out,
            "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const Json json = Json::parse(
      Run({"schedule", "show", "--schedule", "gpipe", "--stages", "1", "--micro-batches", "2", "-o", "json"}).out);
  EXPECT_EQ(json["schedule"], "gpipe");
  EXPECT_EQ(json["workers"], Json::parse(R"([["0F0", "0F1", "0B0", "0B1"]])"));
}

TEST_F(ScheduleVerbTest, ShowDrawsATimeline) {
  const Result text = Run({"schedule", "show", "--schedule", "1f1b", "--stages", "2", "--micro-batches", "1"});
  EXPECT_THAT(
      text.out,
      AllOf(StartsWith("1f1b: 2 workers x 1 stage, 1 micro-batches\nstep 6; lower bound 6, gap 0.0%\n"),
            HasSubstr("worker 0   0F0 .   .   .   0B0----\n"), HasSubstr("worker 1   .   1F0 1B0---- .   .\n")));
  const Result svg = RunVerb("show", {"-o", "svg"});
  EXPECT_EQ(svg.code, 0);
  EXPECT_THAT(svg.out, AllOf(StartsWith("<svg"), HasSubstr("3B7"), testing::EndsWith("</svg>\n")));
}

TEST_F(ScheduleVerbTest, ShowHasAllLevelsAndVerifyTakesThemAll) {
  const std::vector<std::vector<std::string>> all_options = {{"-o", "csv"},
                                                             {"-o", "canonical"},
                                                             {"-o", "csv", "--level", "lowered"},
                                                             {"-o", "canonical", "--level", "lowered"},
                                                             {"-o", "canonical", "--level", "timed"}};
  for (const std::vector<std::string>& options : all_options) {
    const Result shown = RunVerb("show", options);
    ASSERT_EQ(shown.code, 0) << shown.err;
    for (const char* sends : {"rendezvous", "buffered"}) {
      const Result verified = RunWith(shown.out, {"schedule", "verify", "-", "--stages", "4", "--sends", sends});
      EXPECT_EQ(verified.code, 0) << verified.err;
      EXPECT_THAT(verified.out, AllOf(HasSubstr("proven"), HasSubstr("4 workers, 4 stages, 8 micro-batches"),
                                      HasSubstr(std::string("ends under ") + sends + " sends")));
    }
  }
  EXPECT_THAT(Refused(RunVerb("show", {"--level", "timed", "-o", "csv"})),
              HasSubstr("--level timed is not there as csv"));
}

TEST_F(ScheduleVerbTest, SimulateHasThePublishedFields) {
  const Json json = Simulated({});
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("schema_version", "schedule", "stages", "chunks", "micro_batches", "makespan",
                                "lower_bound", "bubble_ratio_span", "bubble_ratio_device", "peak_activations",
                                "peak_pending_weight", "receive_slots", "verified", "program_hash"));
  EXPECT_EQ(json["makespan"], 33);
  EXPECT_EQ(json["lower_bound"], 33);
  EXPECT_NEAR(json["bubble_ratio_span"].get<double>(), 3.0 / 11, 1e-12);
  EXPECT_EQ(json["peak_activations"], Json::parse("[4.0, 3.0, 2.0, 1.0]"));
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["program_hash"].get<std::string>().size(), 32u);
  EXPECT_GT(json["receive_slots"].get<int>(), 0);
}

TEST_F(ScheduleVerbTest, TheBoundOfAutoIsThatOfItsSearch) {
  // What memory forces is in no bound that looks at times alone: half of what 1f1b holds.
  const std::vector<std::string> limit = {"--memory-limit", "2", "--chunks", "1"};
  const Json bounded = Simulated(limit, "auto");
  const Json unlimited = Simulated({"--chunks", "1"}, "auto");
  EXPECT_GT(bounded["lower_bound"].get<double>(), unlimited["lower_bound"].get<double>());
  EXPECT_GE(bounded["makespan"].get<double>(), bounded["lower_bound"].get<double>());
  const Result shown = RunVerb("show", limit, "auto");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("; lower bound "));
  EXPECT_THAT(shown.out, HasSubstr(", gap "));
  std::vector<std::string> in_json = limit;
  in_json.insert(in_json.end(), {"-o", "json"});
  const Json table = Json::parse(RunVerb("show", in_json, "auto").out);
  EXPECT_EQ(table["makespan"], bounded["makespan"]);
  EXPECT_EQ(table["lower_bound"], bounded["lower_bound"]);
}

TEST_F(ScheduleVerbTest, TheBoundOfAutoIsOfItsObjective) {
  const std::vector<std::string> device = {"--objective", "device", "--chunks", "1"};
  EXPECT_THAT(RunVerb("simulate", device, "auto").out,
              testing::ContainsRegex("longest interval +[0-9.]+; lower bound [0-9.]+, gap [0-9.]+%"));
  EXPECT_LT(Simulated(device, "auto")["lower_bound"].get<double>(),
            Simulated({"--chunks", "1"}, "auto")["lower_bound"].get<double>());
  // Without chunks either number may have won: what bounds one alone bounds nothing.
  EXPECT_LE(Simulated({}, "auto")["lower_bound"].get<double>(),
            Simulated({"--chunks", "1"}, "auto")["lower_bound"].get<double>());
  // Which hand-made schedules do not look at.
  EXPECT_EQ(Simulated({"--objective", "device"}), Simulated({}));
}

TEST_F(ScheduleVerbTest, AListGivesEachStageTheTimeOfAFullOne) {
  EXPECT_EQ(Simulated({"--forward", "2,2,2,2"})["makespan"], Simulated({"--forward", "2"})["makespan"]);
  const Json whole = Simulated({"--chunks", "2", "--forward", "3"}, "interleaved");
  EXPECT_EQ(whole, Simulated({"--chunks", "2", "--forward", "3,3,3,3,3,3,3,3"}, "interleaved"));
  EXPECT_EQ(whole["chunks"], 2);
}

TEST_F(ScheduleVerbTest, RecomputationFillsTheWaitForTheGradient) {
  // Down in 3, then worker 3 does 8 times F, R and B, and its last gradient comes up through a B on each of the others.
  const Json json = Simulated({"--recompute", "1"});
  EXPECT_EQ(json["makespan"], 3 + 8 * 4 + 3 * 2);
  EXPECT_EQ(json["lower_bound"], json["makespan"]);
  EXPECT_EQ(json["peak_activations"], Json::parse("[1.0, 1.0, 1.0, 1.0]"));
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(Simulated({"--recompute", "0"})["makespan"], Simulated({})["makespan"]);
  const Result shown = RunVerb("show", {"--recompute", "1"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("++++bbbb"), HasSubstr("+: recomputation")));
  EXPECT_THAT(RunVerb("show", {"--recompute", "1", "-o", "svg"}).out, HasSubstr("recomputation (R)"));
  EXPECT_THAT(Refused(RunVerb("simulate", {"--recompute", "-1"})), HasSubstr("--recompute"));
}

TEST_F(ScheduleVerbTest, DetailAddsUpToTheMakespan) {
  const Json json = Simulated({"--detail", "--communication", "0.25", "--forward", "1,1,2,1"});
  double path = 0;
  for (const Json& step : json["critical_path"]) {
    path += step["end"].get<double>() - step["start"].get<double>() + step["hop"].get<double>();
  }
  const double makespan = json["makespan"].get<double>();
  EXPECT_NEAR(path, makespan, 1e-9);
  double idle = 0;
  for (const auto& [cause, seconds] : json["idle_total"].items()) idle += seconds.get<double>();
  EXPECT_NEAR(idle, json["bubble_ratio_span"].get<double>() * 4 * makespan, 1e-9);
  EXPECT_EQ(json["memory"].size(), 4u);
}

TEST_F(ScheduleVerbTest, TheTextSaysWhatWouldHelp) {
  const Result result = RunVerb("simulate", {"--forward", "1,1,3,1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("lower bound"), HasSubstr("stage 2 on worker 2: "), HasSubstr("one more micro-batch"),
                    HasSubstr("imbalance"), HasSubstr("verified under rendezvous and buffered sends")));
}

TEST_F(ScheduleVerbTest, TracesAreChromes) {
  const Json trace = Json::parse(RunVerb("simulate", {"-o", "trace"}).out);
  EXPECT_EQ(std::count_if(trace["traceEvents"].begin(), trace["traceEvents"].end(),
                          [](const Json& event) { return event["ph"] == "X"; }),
            4 * 8 * 2);
}

TEST_F(ScheduleVerbTest, RefusesWrongNumbersByName) {
  EXPECT_THAT(Refused(RunVerb("simulate", {"--forward", "nan"})), HasSubstr("--forward: number 1 is \"nan\""));
  EXPECT_THAT(Refused(RunVerb("simulate", {"--forward", "1,-2,1,1"})), HasSubstr("--forward: number 2 is \"-2\""));
  EXPECT_THAT(Refused(RunVerb("simulate", {"--backward-input", "inf"})), HasSubstr("--backward-input"));
  EXPECT_THAT(Refused(RunVerb("simulate", {"--backward-weight", "1,"})), HasSubstr("number 2 is \"\""));
  EXPECT_THAT(Refused(RunVerb("simulate", {"--communication", "x"})), HasSubstr("--communication"));
  EXPECT_THAT(Refused(RunVerb("simulate", {"--communication", "1,2"})), HasSubstr("--communication takes one number"));
  EXPECT_THAT(Refused(RunVerb("simulate", {"--forward", "1,2,3"})),
              HasSubstr("--forward has 3 times; give one for all, or 4, one for each stage (4 workers x 1 chunks)"));
  EXPECT_THAT(Refused(RunVerb("simulate", {"--forward=-1"})), HasSubstr("\"-1\""));
}

TEST_F(ScheduleVerbTest, RefusesWrongSizesByName) {
  const auto refused = [](const std::string& p, const std::string& m, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"schedule", "show", "--schedule", "1f1b", "--stages", p, "--micro-batches", m};
    words.insert(words.end(), more.begin(), more.end());
    return Refused(Run(words));
  };
  EXPECT_THAT(refused("4", "0"), HasSubstr("--micro-batches is 0"));
  EXPECT_THAT(refused("0", "4"), HasSubstr("--stages is 0"));
  EXPECT_THAT(refused("4", "4", {"--chunks", "0"}), HasSubstr("--chunks is 0"));
  EXPECT_THAT(refused("4", "4", {"--chunks", "3"}), HasSubstr("1f1b"));
  EXPECT_THAT(refused("4097", "1"), HasSubstr("more than 4096 stages"));
  EXPECT_THAT(refused("4", "65537"), HasSubstr("65536"));
  EXPECT_THAT(refused("4", "-3"), HasSubstr("--micro-batches"));
  EXPECT_THAT(refused("four", "3"), HasSubstr("--stages"));
}

TEST_F(ScheduleVerbTest, RefusesSchedulesThatAreNotThereWithTheNearest) {
  EXPECT_THAT(Refused(RunVerb("simulate", {}, "gpip")), HasSubstr("did you mean gpipe?"));
  const Result json = RunVerb("simulate", {"-o", "json"}, "gpip");
  EXPECT_EQ(json.code, 2);
  EXPECT_THAT(ErrorIn(json), HasSubstr("did you mean gpipe?"));
}

TEST_F(ScheduleVerbTest, RefusesAHandMadeScheduleOverTheMemoryLimit) {
  EXPECT_EQ(RunVerb("simulate", {"--memory-limit", "4"}).code, 0);
  EXPECT_THAT(Refused(RunVerb("simulate", {"--memory-limit", "3.5"})),
              HasSubstr("1f1b holds the activations of 4 micro-batches on worker 0; --memory-limit is 3.5"));
}

TEST_F(ScheduleVerbTest, VerifyNamesThePlaceOrTheCycle) {
  EXPECT_THAT(Refused(Run({"schedule", "verify", FileOf("0F0,0B0,0F0\n")})),
              HasSubstr("program.csv: line 1, column 9 (cell 3, 0F0): is there a second time"));
  const std::string hangs = FileOf(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  EXPECT_THAT(Refused(Run({"schedule", "verify", hangs})),
              HasSubstr("worker 0 at 0SEND_F1 waits for 1RECV_F1 of worker 1, worker 1 at 1SEND_B0 waits for "
                        "0RECV_B0 of worker 0"));
  EXPECT_EQ(Run({"schedule", "verify", hangs, "--sends", "buffered"}).code, 0);
  EXPECT_THAT(Refused(Run({"schedule", "verify", hangs, "--stages", "3"})), HasSubstr("2 workers; --stages says 3"));
  EXPECT_THAT(Refused(Run({"schedule", "verify", directory_.Path("none.csv")})), HasSubstr("none.csv"));
}

TEST_F(ScheduleVerbTest, VerifyInJson) {
  const Result good = RunWith("0F0,0B0\n1F0,1B0\n", {"schedule", "verify", "-", "-o", "json"});
  ASSERT_EQ(good.code, 0) << good.err;
  const Json json = Json::parse(good.out);
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["level"], "compute");
  EXPECT_EQ(json["workers"], 2);
  const Result bad = RunWith("0F0,0B0\n1F0\n", {"schedule", "verify", "-", "-o", "json"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(ErrorIn(bad), HasSubstr("line 2: 1B0 is missing"));
}

}  // namespace
}  // namespace stagecoach
