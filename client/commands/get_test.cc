#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "client/commands/testing/command_line_test.h"
#include "client/output/json.h"
#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class GetTest : public CommandLineTest {
 protected:
  GetTest() {
    PutJob("one", v1::JOB_STATE_SUCCEEDED, 9);
    PutJob("two", v1::JOB_STATE_RUNNING, 3);
    for (const char* name : {"worker-0", "worker-1"}) {
      v1::WorkerDescription worker;
      worker.set_name(name);
      worker.set_state(v1::WORKER_STATE_IDLE);
      worker.set_pid(42);
      service_.PutWorker(worker);
    }
  }
};

TEST_F(GetTest, JobsInEveryFormat) {
  EXPECT_EQ(Run({"get", "jobs"}).out,
            "NAME  STATE      REASON  STEP  LOSS  AGE\n"
            "one   SUCCEEDED  -       9     -     -\n"
            "two   RUNNING    -       3     -     -\n");
  EXPECT_THAT(Run({"get", "jobs", "-o", "wide", "--no-headers"}).out,
              AllOf(HasSubstr("RUNNING"), Not(HasSubstr("STATE"))));
  EXPECT_EQ(Run({"get", "jobs", "-o", "name"}).out, "one\ntwo\n");
  EXPECT_EQ(Run({"ps", "-q"}).out, "one\ntwo\n");
  const Json json = Json::parse(Run({"get", "jobs", "-o", "json"}).out);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["jobs"][1]["name"], "two");
  EXPECT_EQ(json["jobs"][1]["step"], 3);
  const std::string lines = Run({"get", "jobs", "-o", "jsonl"}).out;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_THAT(Run({"get", "jobs", "-o", "yaml"}).out, HasSubstr("jobs:\n  - name: \"one\"\n"));
}

TEST_F(GetTest, ColourOnlyWhenAskedForWhereThereIsNoTerminal) {
  EXPECT_THAT(Run({"get", "jobs"}).out, Not(HasSubstr("\033")));
  EXPECT_THAT(Run({"get", "jobs", "--color", "always"}).out, HasSubstr("\033[32mRUNNING\033[0m"));
}

TEST_F(GetTest, TheFormatMayComeFromTheEnvironment) {
  SetVariable("STAGECOACH_OUTPUT", "name");
  EXPECT_EQ(Run({"get", "jobs"}).out, "one\ntwo\n");
  EXPECT_THAT(Run({"get", "jobs", "-o", "table"}).out, HasSubstr("STATE"));
  SetVariable("STAGECOACH_OUTPUT", "trace");  // another verb's
  EXPECT_THAT(Run({"get", "jobs"}).out, HasSubstr("STATE"));
  SetVariable("STAGECOACH_OUTPUT", "jsno");
  EXPECT_EQ(Run({"get", "jobs"}).code, 2);
}

TEST_F(GetTest, OneJobIsAnObject) {
  const Json json = Json::parse(Run({"get", "job", "two", "-o", "json"}).out);
  for (const char* field : {"state", "reason", "message", "step", "loss", "epoch", "recoveries"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(json["state"], "RUNNING");
}

TEST_F(GetTest, ItsYamlCanBeSubmittedAgain) {
  ASSERT_EQ(Run({"submit", SpecFile(), "-o", "name"}).out, "gpt\n");
  const std::string yaml = Run({"get", "job", "gpt", "-o", "yaml"}).out;
  EXPECT_THAT(yaml, testing::StartsWith("# job gpt: QUEUED, step 0\n"));
  std::vector<SpecError> errors;
  const absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(yaml, {}, errors);
  ASSERT_TRUE(spec.ok()) << yaml;
  EXPECT_EQ(PrintJobSpec(*spec), PrintJobSpec(service_.calls().submissions[0].spec()));
}

TEST_F(GetTest, WorkersHaveThePublishedFields) {
  const Json json = Json::parse(Run({"get", "workers", "-o", "json"}).out);
  ASSERT_EQ(json["workers"].size(), 2u);
  for (const char* field : {"name", "state", "pid", "job", "stages", "device", "incarnation", "last_seen_seconds"}) {
    EXPECT_TRUE(json["workers"][0].contains(field)) << field;
  }
  EXPECT_EQ(json["workers"][0]["state"], "IDLE");
  EXPECT_EQ(Json::parse(Run({"get", "worker", "worker-1", "-o", "json"}).out)["name"], "worker-1");
}

TEST_F(GetTest, WatchPrintsWhatChangesUntilItIsInterrupted) {
  std::thread watched([&] {
    while (service_.calls().count["ListJobs"] < 1) std::this_thread::yield();
    PutJob("two", v1::JOB_STATE_PAUSED, 4);
    while (service_.calls().count["ListJobs"] < 2) std::this_thread::yield();
    raise(SIGINT);
  });
  const Result result = Run({"get", "jobs", "--watch"});
  watched.join();
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.out, testing::StartsWith("NAME  STATE "));
  EXPECT_THAT(result.out, testing::EndsWith("\ntwo  PAUSED  -  4  -  -\n"));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 4);
}

TEST_F(GetTest, WhatIsNotThereIsFive) {
  EXPECT_EQ(Run({"get", "job", "none"}).code, 5);
  EXPECT_EQ(Run({"get", "worker", "none"}).code, 5);
  EXPECT_EQ(Run({"describe", "job", "none"}).code, 5);
  EXPECT_EQ(Run({"describe", "worker", "none"}).code, 5);
}

TEST_F(GetTest, ErrorsInJsonAreAnObject) {
  const Result result = Run({"get", "job", "none", "-o", "json"});
  EXPECT_EQ(result.code, 5);
  const Json error = Json::parse(result.out)["error"];
  EXPECT_EQ(error["code"], "NOT_FOUND");
  EXPECT_EQ(error["message"], "no job named none");
  EXPECT_EQ(error["request_id"].get<std::string>().size(), 16u);
  EXPECT_EQ(result.err, "stagecoach: no job named none\n");
}

TEST_F(GetTest, NoCoordinatorIsSixWithAHint) {
  service_.Stop();
  const Result result = Run({"get", "jobs", "--reconnect-timeout", "10ms"});
  EXPECT_EQ(result.code, 6);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot be reached"), HasSubstr("STAGECOACH_ADDRESS")));
}

TEST_F(GetTest, AnUnauthorisedUserIsFour) {
  service_.Fail("ListJobs", absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Run({"get", "jobs"}).code, 4);
  service_.Fail("ListJobs", absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Run({"get", "jobs"}).code, 4);
}

TEST_F(GetTest, AnErrorOfAnotherKindIsOne) {
  service_.Fail("ListJobs", absl::StatusCode::kInternal);
  EXPECT_EQ(Run({"get", "jobs"}).code, 1);
}

TEST_F(GetTest, EventsOfOneJobAndOfAllWithoutSteps) {
  AddStatus("two", v1::JOB_STATE_RUNNING, "Training");
  AddStep("two", 1);
  AddStatus("one", v1::JOB_STATE_SUCCEEDED, "Completed");
  EXPECT_THAT(Run({"get", "events", "two", "--no-headers"}).out, AllOf(HasSubstr("Training"), Not(HasSubstr("STEP"))));
  EXPECT_THAT(Run({"events", "two", "--steps"}).out, HasSubstr("step 1, loss 1.0000"));
  const Json all = Json::parse(Run({"get", "events", "-o", "json"}).out)["events"];
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(Run({"get", "events", "none"}).code, 5);
}

TEST_F(GetTest, DescribeSaysAll) {
  v1::Job job = PutJob("one", v1::JOB_STATE_SUCCEEDED, 9);
  job.set_digest("abc");
  service_.PutJob(job);
  EXPECT_THAT(Run({"describe", "job", "one"}).out, AllOf(HasSubstr("State:        SUCCEEDED"), HasSubstr("abc")));
  EXPECT_THAT(Run({"describe", "worker", "worker-0"}).out, HasSubstr("Pid:            42"));
  EXPECT_EQ(Json::parse(Run({"describe", "job", "one", "-o", "json"}).out)["digest"], "abc");
}

TEST_F(GetTest, VersionAlsoOfTheCoordinator) {
  EXPECT_THAT(Run({"version"}).out, testing::MatchesRegex("stagecoach [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(Run({"version", "--server"}).out, HasSubstr("\ncoordinator 1.2.3, protocol 2"));
}

}  // namespace
}  // namespace stagecoach
