#include "client/commands/completion.h"

#include <gmock/gmock.h>

#include "absl/strings/str_split.h"
#include "client/commands/testing/command_line_test.h"

namespace stagecoach {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

class CompletionTest : public CommandLineTest {
 protected:
  CompletionTest() {
    PutJob("gpt-a", v1::JOB_STATE_RUNNING);
    PutJob("gpt-b", v1::JOB_STATE_RUNNING);
    v1::WorkerDescription worker;
    worker.set_name("worker-0");
    service_.PutWorker(worker);
  }
  static std::vector<std::string> Offers(std::vector<std::string> words) {
    words.insert(words.begin(), {"__complete", "--"});
    const Result result = Run(words);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, "");
    return absl::StrSplit(result.out, '\n', absl::SkipEmpty());
  }
};

TEST_F(CompletionTest, Verbs) {
  EXPECT_THAT(Offers({""}), IsSupersetOf({"submit", "get", "up"}));
  EXPECT_THAT(Offers({"su"}), ElementsAre("submit"));
  EXPECT_THAT(Offers({"get", ""}), ElementsAre("jobs", "workers", "checkpoints", "events"));
  EXPECT_THAT(Offers({"get", "w"}), ElementsAre("workers"));
}

TEST_F(CompletionTest, Options) {
  EXPECT_THAT(Offers({"submit", "--f"}), ElementsAre("--follow"));
  EXPECT_THAT(Offers({"up", "-"}), IsSupersetOf({"--workers", "-d"}));
  EXPECT_THAT(Offers({"up", "-"}), Not(Contains("--report")));
}

TEST_F(CompletionTest, ValuesOfOptions) {
  EXPECT_THAT(Offers({"get", "jobs", "-o", ""}), ElementsAre("table", "wide", "json", "yaml", "name", "jsonl"));
  EXPECT_THAT(Offers({"get", "jobs", "--output", "j"}), ElementsAre("json", "jsonl"));
  EXPECT_THAT(Offers({"wait", "gpt-a", "--for", "=", "r"}), ElementsAre("running"));
  EXPECT_THAT(Offers({"up", "--restart", ""}), ElementsAre("always", "never"));
  EXPECT_THAT(Offers({"completion", "z"}), ElementsAre("zsh"));
}

TEST_F(CompletionTest, SchedulesAndTheirOptions) {
  EXPECT_THAT(Offers({"schedule", ""}), ElementsAre("list", "show", "simulate", "verify"));
  EXPECT_THAT(Offers({"schedule", "simulate", "--schedule", "g"}), ElementsAre("gpipe"));
  EXPECT_THAT(Offers({"schedule", "simulate", "--back"}), ElementsAre("--backward-input", "--backward-weight"));
  EXPECT_THAT(Offers({"schedule", "simulate", "--objective", ""}), ElementsAre("span", "device"));
  EXPECT_THAT(Offers({"schedule", "show", "-o", ""}), ElementsAre("text", "csv", "json", "svg", "canonical"));
  EXPECT_THAT(Offers({"schedule", "verify", "--sends", "b"}), ElementsAre("buffered"));
  EXPECT_THAT(Offers({"schedule", "verify", "one"}), ElementsAre(":files"));
}

TEST_F(CompletionTest, NamesOfJobsWorkersAndContexts) {
  EXPECT_THAT(Offers({"describe", "job", ""}), ElementsAre("gpt-a", "gpt-b"));
  EXPECT_THAT(Offers({"wait", "--for", "running", "gpt-b"}), ElementsAre("gpt-b"));
  EXPECT_THAT(Offers({"get", "worker", ""}), ElementsAre("worker-0"));
  EXPECT_THAT(Offers({"get", "checkpoints", ""}), ElementsAre("gpt-a", "gpt-b"));
  EXPECT_THAT(Offers({"logs", "gpt-a", "--worker", ""}), ElementsAre("worker-0"));
  EXPECT_THAT(Offers({"config", "use-context", ""}), ElementsAre("local"));
  EXPECT_THAT(Offers({"wait", "gpt-a", ""}), IsEmpty());
}

TEST_F(CompletionTest, NamesOfTheCoordinatorThatIsMeant) {
  UnsetVariable("STAGECOACH_ADDRESS");
  EXPECT_THAT(Offers({"wait", "--address", service_.address(), ""}), ElementsAre("gpt-a", "gpt-b"));
  EXPECT_THAT(Offers({"wait", ""}), IsEmpty());
}

TEST_F(CompletionTest, FilesAreTheShells) { EXPECT_THAT(Offers({"submit", "exa"}), ElementsAre(":files")); }

TEST_F(CompletionTest, ACoordinatorThatIsGoneOffersNothing) {
  service_.Stop();
  EXPECT_THAT(Offers({"wait", ""}), IsEmpty());
}

TEST_F(CompletionTest, ThereIsAScriptForEachShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(Run({"completion", shell}).out, testing::HasSubstr("__complete -- ")) << shell;
  }
  EXPECT_EQ(Run({"completion", "tcsh"}).code, 2);
}

}  // namespace
}  // namespace stagecoach
