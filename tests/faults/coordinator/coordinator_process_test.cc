// The daemon as its users see it: options, exit codes, files, signals.

#include "tests/testing/coordinator/coordinator_process.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/service/testing/grpc_worker.h"
#include "coordinator/service/testing/service_harness.h"
#include "tests/testing/health/health_probe.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

class CoordinatorProcessTest : public testing::Test {
 protected:
  std::unique_ptr<CoordinatorProcess> Start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--state-dir", State(), "--listen", "127.0.0.1:0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<CoordinatorProcess>(STAGECOACH_COORDINATOR_BINARY, directory_.path(), arguments);
  }
  std::unique_ptr<CoordinatorProcess> StartAndWait(const std::vector<std::string>& more = {}) {
    auto process = Start(more);
    EXPECT_TRUE(process->WaitUntilItServes()) << process->Log();
    return process;
  }
  std::string State() const { return directory_.Path("state"); }

  TemporaryDirectory directory_;
};

uint64_t TermOf(const CoordinatorProcess& process) {
  const auto stub = v1::CoordinatorService::NewStub(process.Dial());
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetVersionResponse response;
  EXPECT_TRUE(stub->GetVersion(&context, {}, &response).ok());
  return response.coordinator_term();
}

// For more workers than there are, so that it stays in the queue.
grpc::Status Submit(const CoordinatorProcess& process, const TemporaryDirectory& directory) {
  const auto stub = v1::CoordinatorService::NewStub(process.Dial());
  grpc::ClientContext context;
  SetDeadline(context);
  v1::SubmitJobRequest request;
  *request.mutable_spec() = CompleteSpec("job", directory, 2);
  v1::SubmitJobResponse response;
  return stub->SubmitJob(&context, request, &response);
}

v1::ListJobsResponse Jobs(const CoordinatorProcess& process) {
  const auto stub = v1::CoordinatorService::NewStub(process.Dial());
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListJobsResponse response;
  EXPECT_TRUE(stub->ListJobs(&context, {}, &response).ok());
  return response;
}

// Of a line of the log: "metrics at 127.0.0.1:41234".
std::string AddressIn(const std::string& log, const std::string& what) {
  const size_t begin = log.find(what + " at ") + what.size() + 4;
  return log.substr(begin, log.find('\n', begin) - begin);
}

TEST_F(CoordinatorProcessTest, ServesMetricsAndHealthAtPortsOfTheirOwn) {
  auto process = StartAndWait({"--metrics-listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0"});
  const std::string health = AddressIn(process->Log(), "health"), metrics = AddressIn(process->Log(), "metrics");
  EXPECT_THAT(metrics, testing::StartsWith("127.0.0.1:"));
  EXPECT_NE(health, metrics);
  EXPECT_TRUE(HealthBecomes(health, "", "SERVING"));
  EXPECT_EQ(AskHealth(health, "live"), "SERVING");
  // Nothing of the coordinator itself can be reached there.
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetVersionResponse response;
  const auto stub = v1::CoordinatorService::NewStub(grpc::CreateChannel(health, grpc::InsecureChannelCredentials()));
  EXPECT_EQ(stub->GetVersion(&context, {}, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  process->Signal(SIGTERM);
  EXPECT_EQ(process->WaitForExit(), 0);
}

TEST_F(CoordinatorProcessTest, RefusesToServeMetricsAndHealthToOthers) {
  for (const char* option : {"--metrics-listen", "--health-listen"}) {
    auto process = Start({option, "0.0.0.0:0"});
    EXPECT_EQ(process->WaitForExit(), 2);
    EXPECT_THAT(process->Log(), HasSubstr(std::string(option) + ": refusing to serve"));
  }
  EXPECT_FALSE(std::filesystem::exists(State()));
}

TEST_F(CoordinatorProcessTest, MakesAStateDirectoryForItsUserAlone) {
  const auto process = StartAndWait();
  EXPECT_EQ(TermOf(*process), 1u);
  struct stat info;
  ASSERT_EQ(stat(State().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(std::filesystem::exists(State() + "/journal.sqlite"));
}

TEST_F(CoordinatorProcessTest, SigtermEndsStreamsAndTheProcessInOrder) {
  const std::string socket = directory_.Path("socket");
  const auto process = StartAndWait({"--listen", "unix:" + socket});
  EXPECT_TRUE(Submit(*process, directory_).ok());
  GrpcWorker worker(process->Dial(), std::make_unique<FakeWorker>("w", Incarnation(1)));
  const auto stub = v1::CoordinatorService::NewStub(process->Dial());
  grpc::ClientContext context;
  SetDeadline(context);
  v1::FollowJobRequest request;
  request.set_job("job");
  const auto stream = stub->FollowJob(&context, request);
  v1::JobEvent event;
  ASSERT_TRUE(stream->Read(&event));

  process->Signal(SIGTERM);
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(worker.WaitForEnd().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(process->WaitForExit(), 0) << process->Log();
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST_F(CoordinatorProcessTest, SigintEndsItToo) {
  const auto process = StartAndWait();
  process->Signal(SIGINT);
  EXPECT_EQ(process->WaitForExit(), 0);
}

TEST_F(CoordinatorProcessTest, KnowsItsJobsAfterItWasKilled) {
  const std::vector<std::string> listen = {"--listen", "unix:" + directory_.Path("socket")};
  auto process = StartAndWait(listen);
  EXPECT_TRUE(Submit(*process, directory_).ok());
  process->Signal(SIGKILL);
  EXPECT_EQ(process->WaitForExit(), 128 + SIGKILL);
  process = StartAndWait(listen);
  EXPECT_EQ(TermOf(*process), 2u);
  ASSERT_EQ(Jobs(*process).jobs_size(), 1);
  EXPECT_EQ(Jobs(*process).jobs(0).status().state(), v1::JOB_STATE_QUEUED);
}

TEST_F(CoordinatorProcessTest, AJobThatRunsOutlivesSigterm) {
  auto process = StartAndWait();
  GrpcWorker worker(process->Dial(), std::make_unique<FakeWorker>("w", Incarnation(1), &FileSystem::Posix()));
  const auto stub = v1::CoordinatorService::NewStub(process->Dial());
  v1::SubmitJobRequest submission;
  *submission.mutable_spec() = CompleteSpec("job", directory_, 1, /*steps=*/1'000'000'000);
  v1::SubmitJobResponse response;
  grpc::ClientContext submit_context;
  ASSERT_TRUE(stub->SubmitJob(&submit_context, submission, &response).ok());
  grpc::ClientContext context;
  SetDeadline(context);
  v1::FollowJobRequest request;
  request.set_job("job");
  const auto stream = stub->FollowJob(&context, request);
  v1::JobEvent event;
  while (!event.has_step()) ASSERT_TRUE(stream->Read(&event));

  process->Signal(SIGTERM);
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(process->WaitForExit(), 0) << process->Log();
  process = StartAndWait();
  ASSERT_EQ(Jobs(*process).jobs_size(), 1);
  EXPECT_EQ(Jobs(*process).jobs(0).status().state(), v1::JOB_STATE_RECOVERING)
      << Jobs(*process).jobs(0).status().ShortDebugString();
}

TEST_F(CoordinatorProcessTest, ASecondOneOnTheSameStateIsRefused) {
  const auto first = StartAndWait();
  const TemporaryDirectory other;
  CoordinatorProcess second(STAGECOACH_COORDINATOR_BINARY, other.path(),
                            {"--state-dir", State(), "--listen", "127.0.0.1:0"});
  EXPECT_EQ(second.WaitForExit(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("another coordinator has the journal " + State() + "/journal.sqlite"));
  EXPECT_EQ(TermOf(*first), 1u);
}

TEST_F(CoordinatorProcessTest, APortInUseIsRefused) {
  const auto first = StartAndWait();
  const TemporaryDirectory other;
  const std::string address = first->address().ToString();
  CoordinatorProcess second(STAGECOACH_COORDINATOR_BINARY, other.path(),
                            {"--state-dir", other.Path("state"), "--listen", address});
  EXPECT_EQ(second.WaitForExit(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("cannot listen at " + address + ": Address already in use"));
}

TEST_F(CoordinatorProcessTest, OtherAddressesThanThisMachinesNeedInsecure) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "10.0.0.5:0", "[::ffff:10.0.0.1]:0", "coordinator.example:0"}) {
    const auto refused = Start({"--listen", address});
    EXPECT_EQ(refused->WaitForExit(), 2) << address;
    EXPECT_THAT(refused->Log(), HasSubstr("--insecure")) << address;
  }
  const auto allowed = StartAndWait({"--listen", "0.0.0.0:0", "--insecure"});
  EXPECT_EQ(TermOf(*allowed), 1u);
}

TEST_F(CoordinatorProcessTest, BadOptionsAreUsageErrors) {
  const std::vector<std::vector<std::string>> bad = {{"--listen", "nowhere"},
                                                     {"--listen", "127.0.0.1:70700"},
                                                     {"--lease", "3"},
                                                     {"--lease", "-3s"},
                                                     {"--lease", "inf"},
                                                     {"--lease", "300ms"},
                                                     {"--heartbeat-interval", "0s"},
                                                     {"--log-level", "loud"},
                                                     {"--log-format", "xml"},
                                                     {"--no-such-option"},
                                                     {"stray"}};
  for (const auto& options : bad) {
    const auto process = Start(options);
    EXPECT_EQ(process->WaitForExit(), 2) << options[0];
    EXPECT_THAT(process->Log(), HasSubstr(options[0])) << options[0];
  }
  CoordinatorProcess no_state(STAGECOACH_COORDINATOR_BINARY, directory_.path(), {});
  EXPECT_EQ(no_state.WaitForExit(), 2);
}

TEST_F(CoordinatorProcessTest, ABadStateDirectoryIsNamed) {
  std::ofstream(State()) << "a file";
  const auto process = Start();
  EXPECT_EQ(process->WaitForExit(), 1);
  EXPECT_THAT(process->Log(), HasSubstr(State()));
}

TEST_F(CoordinatorProcessTest, ADamagedJournalIsNamed) {
  std::filesystem::create_directory(State());
  std::ofstream(State() + "/journal.sqlite") << std::string(10'000, 'x');
  const auto process = Start();
  EXPECT_EQ(process->WaitForExit(), 1);
  EXPECT_THAT(process->Log(), HasSubstr(State() + "/journal.sqlite"));
}

// Its files may not grow any more, as on a full disk.
TEST_F(CoordinatorProcessTest, EndsWhenItsJournalCannotBeWritten) {
  const auto process = StartAndWait();
  const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
  ASSERT_EQ(prlimit(process->pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  EXPECT_FALSE(Submit(*process, directory_).ok());
  EXPECT_EQ(process->WaitForExit(), 1) << process->Log();
  EXPECT_THAT(process->Log(), HasSubstr("journal.sqlite"));
  const auto next = StartAndWait();
  EXPECT_EQ(Jobs(*next).jobs_size(), 0);
}

TEST_F(CoordinatorProcessTest, LogsJsonLines) {
  const auto process = StartAndWait({"--log-format", "json"});
  EXPECT_THAT(process->Log(), HasSubstr("\"component\":\"coordinator\",\"message\":\"serving at 127.0.0.1:"));
}

TEST_F(CoordinatorProcessTest, HelpAndVersionAreNoErrors) {
  for (const char* option : {"--help", "--version"}) {
    CoordinatorProcess process(STAGECOACH_COORDINATOR_BINARY, directory_.path(), {option});
    EXPECT_EQ(process.WaitForExit(), 0);
    EXPECT_EQ(process.Log(), "");
  }
}

}  // namespace
}  // namespace stagecoach
