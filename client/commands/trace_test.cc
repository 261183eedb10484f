#include <gmock/gmock.h>

#include "client/commands/testing/command_line_test.h"
#include "common/file_system.h"
#include "nlohmann/json.hpp"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class TraceTest : public CommandLineTest {
 protected:
  TraceTest() { PutJob("tiny", v1::JOB_STATE_RUNNING, 9); }

  void AddHeader(uint64_t first_step, uint64_t last_step) {
    v1::TraceChunk chunk;
    v1::TraceHeader& header = *chunk.mutable_header();
    header.set_job("tiny");
    header.set_first_step(first_step);
    header.set_last_step(last_step);
    for (const char* worker : {"worker-0", "worker-1"}) {
      v1::TraceMember& member = *header.add_members();
      member.set_worker(worker);
      member.add_stages(static_cast<uint32_t>(header.members_size() - 1));
    }
    service_.AddTraceChunk(chunk);
  }
  // A forward for the whole step.
  void AddRun(uint32_t rank, uint64_t step) {
    v1::TraceChunk chunk;
    chunk.mutable_worker()->set_worker_rank(rank);
    v1::StepTrace& run = *chunk.mutable_worker()->mutable_part()->mutable_step();
    run.set_step(step);
    run.set_begin(static_cast<int64_t>(1'000'000 * step));
    v1::InstructionTrace& forward = *run.add_instructions();
    forward.mutable_action()->set_kind(v1::ACTION_KIND_FORWARD);
    forward.mutable_action()->set_stage(rank);
    forward.set_work(900'000);
    run.set_last_wait_end(900'000);
    run.set_end(900'000);
    service_.AddTraceChunk(chunk);
  }
  void AddMissing(uint32_t rank) {
    v1::TraceChunk chunk;
    chunk.mutable_missing()->set_worker_rank(rank);
    chunk.mutable_missing()->set_message("it has not answered in time");
    service_.AddTraceChunk(chunk);
  }
  void AddEnd(uint32_t rank, const std::string& kept_job) {
    v1::TraceChunk chunk;
    chunk.mutable_worker()->set_worker_rank(rank);
    chunk.mutable_worker()->mutable_part()->set_last(true);
    chunk.mutable_worker()->mutable_part()->set_kept_job(kept_job);
    service_.AddTraceChunk(chunk);
  }
};

TEST_F(TraceTest, PrintsATraceForPerfetto) {
  AddHeader(8, 9);
  for (const uint32_t rank : {0U, 1U}) {
    AddRun(rank, 8);
    AddRun(rank, 9);
  }
  const Result result = Run({"trace", "tiny", "--steps", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["otherData"]["steps"].size(), 2u);
  EXPECT_EQ(service_.calls().trace_reads.at(0).steps(), 2u);
  EXPECT_EQ(service_.calls().trace_reads.at(0).job(), "tiny");
}

TEST_F(TraceTest, WritesItToAFile) {
  AddHeader(9, 9);
  for (const uint32_t rank : {0U, 1U}) AddRun(rank, 9);
  const std::string path = directory_.Path("trace.json");
  const Result result = Run({"trace", "tiny", "--steps", "1", "--output", path});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr(path + ": step 9 of job tiny; open it at https://ui.perfetto.dev"));
  const auto text = ReadFile(FileSystem::Posix(), path, 1 << 20);
  EXPECT_TRUE(nlohmann::json::accept(*text));
}

TEST_F(TraceTest, AFileThatCannotBeWrittenIsNamed) {
  AddHeader(9, 9);
  for (const uint32_t rank : {0U, 1U}) AddRun(rank, 9);
  const std::string path = directory_.Path("none/trace.json");
  const Result result = Run({"trace", "tiny", "--output", path});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("\"" + path + "\" cannot be written: No such file or directory"));
}

TEST_F(TraceTest, DrawsTheLastStep) {
  AddHeader(9, 9);
  for (const uint32_t rank : {0U, 1U}) AddRun(rank, 9);
  const Result result = Run({"trace", "tiny", "-o", "text"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("step 9: 0.001 s, bubble 0.0%; a column is "));
  EXPECT_THAT(result.out, HasSubstr("\nstage 1 |F0==="));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  EXPECT_EQ(service_.calls().trace_reads.at(0).steps(), 1u);
}

TEST_F(TraceTest, AWorkerThatIsMissingIsAWarning) {
  AddHeader(9, 9);
  AddRun(0, 9);
  AddMissing(1);
  const Result result = Run({"trace", "tiny", "--steps", "1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "stagecoach: warning: no trace of worker worker-1 (stage 1): it has not answered in time\n");
  EXPECT_EQ(nlohmann::json::parse(result.out)["otherData"]["stages"][1]["missing"], "it has not answered in time");
}

TEST_F(TraceTest, FewerStepsThanAskedForAreAWarning) {
  AddHeader(9, 9);
  for (const uint32_t rank : {0U, 1U}) AddRun(rank, 9);
  const Result result = Run({"trace", "tiny", "--steps", "100"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "stagecoach: warning: asked for 100 steps; the job has completed 1\n");
}

TEST_F(TraceTest, WhenNobodyKeepsAnythingThereIsNone) {
  AddHeader(9, 9);
  AddMissing(0);
  AddEnd(1, "other");
  const Result result = Run({"trace", "tiny"});
  EXPECT_EQ(result.code, 9);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("stagecoach: there is no timeline of job tiny; "));
  EXPECT_THAT(result.err, HasSubstr("worker-0 (stage 0): it has not answered in time"));
  EXPECT_THAT(result.err, HasSubstr("worker-1 (stage 1): it has taken job other since"));
}

TEST_F(TraceTest, ErrorsHaveTheirExitCodes) {
  EXPECT_EQ(Run({"trace", "none"}).code, 5);
  service_.Fail("ReadTrace", absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Run({"trace", "tiny"}).code, 9);
  service_.Fail("ReadTrace", absl::StatusCode::kUnavailable);
  EXPECT_EQ(Run({"trace", "tiny"}).code, 6);
  for (const char* steps : {"0", "-1", "many"}) EXPECT_EQ(Run({"trace", "tiny", "--steps", steps}).code, 2) << steps;
  EXPECT_EQ(Run({"trace"}).code, 2);
  EXPECT_EQ(Run({"trace", "tiny", "-o", "json"}).code, 2);
}

}  // namespace
}  // namespace stagecoach
