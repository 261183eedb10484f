#include <iostream>
#include <memory>
#include <optional>

#include "absl/time/clock.h"
#include "client/commands/command.h"
#include "client/commands/duration_option.h"
#include "client/commands/follow.h"
#include "client/commands/interrupts.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/coordinator_client/job_states.h"
#include "client/coordinator_client/log_feed.h"
#include "client/output/event_view.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

struct LogsArguments {
  std::string job;
  bool follow = false;
  bool all = false;
  bool timestamps = false;
  std::string worker;
  std::optional<uint32_t> stage;
  std::optional<absl::Duration> since;
  uint64_t tail = 0;
  ServerArguments server;
  OutputArguments output;
};

void PrintLine(const v1::LogRecord& record, const LogsArguments& arguments) {
  if (arguments.output.format == "jsonl") {
    std::cout << PrintJsonText(LogJson(arguments.job, record), JsonForm::kOneLine) << "\n";
  } else {
    std::cout << LogText(record, arguments.timestamps, arguments.output.colour()) << "\n";
  }
  if (arguments.follow) std::cout << std::flush;
}

// After the last line: the exit code is the job's, as for every verb that follows.
Outcome EndOf(CoordinatorClient& client, const LogsArguments& arguments) {
  if (!arguments.follow) return kExitOk;
  const absl::StatusOr<v1::Job> job = client.GetJob(arguments.job);
  if (!job.ok()) return LostFailure(job.status(), arguments.job, {});
  return ExitCodeOf(job->status().state());
}

Outcome ShowLogs(CoordinatorClient& client, const LogsArguments& arguments) {
  const Interrupts interrupts(Interrupts::Second::kEndsProcess);
  v1::FollowLogsRequest request;
  request.set_job(arguments.job);
  request.set_follow(arguments.follow);
  request.set_worker(arguments.worker);
  if (arguments.stage) request.set_stage(*arguments.stage);
  request.set_tail(arguments.tail);
  const absl::Time oldest = arguments.since ? absl::Now() - *arguments.since : absl::InfinitePast();
  LogFeed feed(client, request, Reconnecting(arguments.server));
  while (interrupts.count() == 0) {
    const absl::StatusOr<std::optional<v1::LogRecord>> record = feed.Next(kPoll);
    if (absl::IsOutOfRange(record.status())) return EndOf(client, arguments);
    if (!record.ok()) return LostFailure(record.status(), arguments.job, {});
    if (record->has_value() && FromProto((*record)->line().time()) >= oldest) PrintLine(**record, arguments);
  }
  std::cerr << "detached: job " << arguments.job << " goes on\n";
  return kExitInterrupted;
}

}  // namespace

void AddLogs(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<LogsArguments>();
  CLI::App* verb = AddVerb(root, "logs", "what a job's workers have logged",
                           "  stagecoach logs JOB -f\n"
                           "  stagecoach logs JOB --stage 2 --tail 20\n"
                           "  stagecoach logs JOB --since 10m -o jsonl");
  verb->add_option("job", arguments->job)->required()->type_name("JOB");
  verb->add_flag("-f,--follow", arguments->follow, "until the job's end; waits for one that has not begun");
  CLI::Option* worker = verb->add_option("--worker", arguments->worker, "only this worker's")->type_name("WORKER");
  verb->add_option("--stage", arguments->stage, "only those of this stage's worker")->excludes(worker);
  verb->add_flag("--all", arguments->all, "all workers': the default")->excludes(worker);
  AddDurationOption(*verb, "--since", arguments->since, "only lines of the last 10m, say");
  verb->add_option("--tail", arguments->tail, "of what is kept, the last so many lines")
      ->check(CLI::Range(1, 1'000'000));
  verb->add_flag("--timestamps", arguments->timestamps, "with the time of each line");
  AddServerOptions(*verb, arguments->server);
  AddTableOptions(*verb, arguments->output, {"text", "jsonl"});
  verb->callback([&invocation, arguments] {
    invocation.run = [arguments] {
      return AskCoordinator(arguments->server, arguments->output,
                            [&](CoordinatorClient& client) { return ShowLogs(client, *arguments); });
    };
  });
}

}  // namespace stagecoach
