#include "tests/bench/simulated_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cluster/log_file.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tests/bench/measured_job.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kStartTimeout = absl::Minutes(2);
constexpr absl::Duration kPoll = absl::Milliseconds(2);
constexpr int kTailLines = 5;
constexpr absl::string_view kSeries = "stagecoach_stage_busy_seconds_total{";
constexpr char kMetricsAt[] = "metrics at 127.0.0.1:";
// What a worker does in programs, by label `state`.
constexpr std::array kProgramStates = {"forward",  "recompute", "backward", "weight_grad",
                                       "p2p_wait", "data_wait", "other"};

// Empty: nobody answers.
std::string Get(uint16_t port, const std::string& path) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\n\r\n");
    send(descriptor, request.data(), request.size(), MSG_NOSIGNAL);
    std::array<char, 65536> part{};
    for (ssize_t n = 0; (n = recv(descriptor, part.data(), part.size(), 0)) > 0;) {
      answer.append(part.data(), static_cast<size_t>(n));
    }
  }
  close(descriptor);
  return answer;
}

// The value of a label in {run="x",stage="0",state="forward"}.
absl::string_view Label(absl::string_view labels, absl::string_view name) {
  const size_t begin = labels.find(absl::StrCat(name, "=\""));
  if (begin == absl::string_view::npos) return "";
  labels.remove_prefix(begin + name.size() + 2);
  return labels.substr(0, labels.find('"'));
}

}  // namespace

SimulatedCluster::SimulatedCluster(const Options& options) {
  StartCoordinator();
  StartWorkers(options);
}

void SimulatedCluster::Start(const std::string& name, const std::string& program,
                             const std::vector<std::string>& arguments) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  absl::StatusOr<std::unique_ptr<ChildProcess>> process =
      ChildProcess::Start({.program = here / program,
                           .arguments = arguments,
                           .environment = {"OMP_WAIT_POLICY=passive"},
                           .log_path = directory_.Path(name)});
  Require(process.status());
  processes_.push_back({name, *std::move(process)});
}

void SimulatedCluster::StartCoordinator() {
  const std::string address_file = directory_.Path("address");
  Start("coordinator", "stagecoach-coordinator",
        {"--state-dir", directory_.Path("state"), "--listen", "127.0.0.1:0", "--address-file", address_file,
         "--metrics-listen", "127.0.0.1:0"});
  const absl::Time deadline = absl::Now() + kStartTimeout;
  for (; address_.empty(); absl::SleepFor(kPoll)) {
    CheckAllLive(deadline);
    std::getline(std::ifstream(address_file), address_);
  }
  std::ostringstream log;
  log << std::ifstream(directory_.Path("coordinator")).rdbuf();
  const size_t at = log.str().find(kMetricsAt);
  if (at == std::string::npos) Fail("the coordinator does not say where its metrics are");
  metrics_port_ = static_cast<uint16_t>(std::atoi(log.str().c_str() + at + std::strlen(kMetricsAt)));
  client_ = v1::CoordinatorService::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
}

void SimulatedCluster::StartWorkers(const Options& options) {
  for (uint32_t i = 0; i < options.num_workers; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    Start(name, "stagecoach-worker",
          {"--coordinator", address_, "--name", name, "--device", "simulated", "--simulated-block-seconds",
           options.block_seconds, "--threads", "1", "--memory", "64MiB", "--transport", options.transport});
  }
  const absl::Time deadline = absl::Now() + kStartTimeout;
  v1::ListWorkersResponse known;
  while (known.workers_size() < static_cast<int>(options.num_workers)) {
    CheckAllLive(deadline);
    absl::SleepFor(kPoll);
    grpc::ClientContext context;
    client_->ListWorkers(&context, {}, &known);
  }
}

void SimulatedCluster::CheckAllLive(absl::Time deadline) {
  for (const Process& process : processes_) {
    const std::optional<std::string> end = process.process->Poll();
    if (end) Fail(absl::StrCat(process.name, " ", *end));
  }
  if (absl::Now() > deadline) Fail("the cluster does not come up");
}

std::string SimulatedCluster::Submit(const v1::JobSpec& spec) {
  grpc::ClientContext context;
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.mutable_spec()->mutable_checkpoint()->set_dir(directory_.Path("checkpoints"));
  v1::SubmitJobResponse response;
  const grpc::Status status = client_->SubmitJob(&context, request, &response);
  if (!status.ok()) Fail(absl::StrCat("submission: ", status.error_message()));
  return response.job();
}

std::vector<MeasuredStep> SimulatedCluster::Train(const v1::JobSpec& spec) {
  grpc::ClientContext context;
  v1::FollowJobRequest request;
  request.set_job(Submit(spec));
  const auto stream = client_->FollowJob(&context, request);
  std::vector<MeasuredStep> steps;
  std::vector<double> before;
  absl::Time committed_before;
  v1::JobEvent event;
  v1::JobStatus last;
  while (stream->Read(&event)) {
    if (event.has_status()) last = event.status();
    if (!event.has_step()) continue;
    const absl::Time committed = absl::Now();
    const std::vector<double> after = NextProgramSeconds(before);
    if (event.step().step() > 1) {
      MeasuredStep step{.verdict = event.step().step_seconds(),
                        .interval = absl::ToDoubleSeconds(committed - committed_before)};
      for (size_t i = 0; i < after.size(); ++i) step.span = std::max(step.span, after[i] - before[i]);
      steps.push_back(step);
    }
    before = after;
    committed_before = committed;
  }
  if (last.state() != v1::JOB_STATE_SUCCEEDED) Fail(absl::StrCat("the job: ", last.reason(), ": ", last.message()));
  return steps;
}

// A step's votes are counted behind its commit.
std::vector<double> SimulatedCluster::NextProgramSeconds(const std::vector<double>& before) const {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  std::vector<double> seconds = ProgramSeconds();
  const auto is_next = [&] {
    if (seconds.empty()) return false;
    for (size_t i = 0; i < seconds.size(); ++i) {
      if (seconds[i] <= (before.empty() ? 0 : before.at(i))) return false;
    }
    return true;
  };
  while (!is_next()) {
    if (absl::Now() > deadline) Fail("the coordinator's metrics do not count the step");
    absl::SleepFor(kPoll);
    seconds = ProgramSeconds();
  }
  return seconds;
}

std::vector<double> SimulatedCluster::ProgramSeconds() const {
  std::vector<double> seconds;
  const std::string answer = Get(metrics_port_, "/metrics");
  for (absl::string_view line : absl::StrSplit(answer, '\n')) {
    if (!absl::ConsumePrefix(&line, kSeries)) continue;
    const absl::string_view state = Label(line, "state");
    if (std::find(kProgramStates.begin(), kProgramStates.end(), state) == kProgramStates.end()) continue;
    size_t stage = 0;
    double value = 0;
    if (!absl::SimpleAtoi(Label(line, "stage"), &stage) || stage > 4096 ||
        !absl::SimpleAtod(absl::StripAsciiWhitespace(line.substr(line.find('}') + 1)), &value)) {
      Fail(absl::StrCat("the coordinator's metrics have a line ", line));
    }
    if (seconds.size() <= stage) seconds.resize(stage + 1);
    seconds[stage] += value;
  }
  return seconds;
}

void SimulatedCluster::Fail(const std::string& what) const {
  std::fprintf(stderr, "%s\n", what.c_str());
  for (const Process& process : processes_) {
    const std::string tail = LogTail(directory_.Path(process.name), kTailLines);
    std::fprintf(stderr, "the end of the log of %s:\n%s", process.name.c_str(), tail.c_str());
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory_.path(), ignored);
  std::exit(1);
}

}  // namespace stagecoach
