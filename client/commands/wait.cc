#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/duration_option.h"
#include "client/commands/follow.h"
#include "client/commands/interrupts.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/commands/wait_condition.h"
#include "client/coordinator_client/enum_text.h"
#include "client/coordinator_client/job_states.h"
#include "client/output/job_view.h"
#include "common/clock.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

struct WaitArguments {
  std::string job;
  std::string condition = "terminal";
  std::optional<absl::Duration> timeout;
  ServerArguments server;
  OutputArguments output;
};

std::string StateText(const v1::JobStatus& status) {
  if (status.state() == v1::JOB_STATE_UNSPECIFIED) return absl::StrCat("job ", status.job(), " has not been heard of");
  return absl::StrCat("job ", status.job(), " is ", EnumText(status.state()), " at step ", status.step());
}

Failure NeverFailure(const WaitArguments& arguments, const v1::JobStatus& status) {
  const ExitCode code = ExitCodeOf(status.state());
  const std::string cause = RootCauseText(status);
  return {.code = code == kExitOk ? kExitConflict : code,
          .status = absl::FailedPreconditionError(
              absl::StrCat(StateText(status), " and will not come to ", arguments.condition,
                           status.message().empty() ? "" : ": ", status.message(), cause.empty() ? "" : "; ", cause))};
}

Outcome Met(const WaitCondition& condition, const v1::Job& job, const WaitArguments& arguments) {
  if (arguments.output.format != "text") PrintObject(JobJson(job), arguments.output.format);
  const bool is_end = condition.kind == WaitCondition::Kind::kTerminal;
  if (is_end) std::cerr << StateText(job.status()) << "\n";
  return is_end ? ExitCodeOf(job.status().state()) : kExitOk;
}

absl::Status Ask(CoordinatorClient& client, v1::Job& job) {
  absl::StatusOr<v1::Job> now = client.GetJob(job.status().job());
  if (now.ok()) job = *std::move(now);
  return now.status();
}

// Steps and states are in their events; what else a condition may need has to be asked for.
absl::Status Update(CoordinatorClient& client, const v1::JobEvent& event, v1::Job& job) {
  if (event.has_step()) {
    job.mutable_status()->set_step(std::max(job.status().step(), event.step().step()));
    return absl::OkStatus();
  }
  if (event.has_status()) *job.mutable_status() = event.status();
  return Ask(client, job);
}

// The coordinator went away when it was asked: how long it may be gone is the feed's to say, unless that has ended.
bool MayWait(const absl::Status& status, const WaitCondition& condition, const v1::Job& job) {
  return absl::IsUnavailable(status) &&
         (!IsTerminal(job.status().state()) || condition.kind != WaitCondition::Kind::kCheckpoint);
}

Outcome Wait(CoordinatorClient& client, const WaitArguments& arguments) {
  const Interrupts interrupts(Interrupts::Second::kEndsProcess);
  const Clock& clock = Clock::Real();
  const absl::Duration deadline = clock.Now() + arguments.timeout.value_or(absl::InfiniteDuration());
  const WaitCondition condition = *ParseWaitCondition(arguments.condition);
  // The feed begins before the first look, so that nothing happens between the two.
  JobFeed feed(client, arguments.job, {.only_new = true, .reconnect = Reconnecting(arguments.server)});
  v1::Job job;
  job.mutable_status()->set_job(arguments.job);
  bool is_stale = false;  // an event said that there is something to ask for, and nobody answered
  while (interrupts.count() == 0) {
    const absl::Duration left = deadline - clock.Now();
    if (left <= absl::ZeroDuration()) {
      return Failure{.code = kExitTimeout,
                     .status = absl::DeadlineExceededError(absl::StrCat(StateText(job.status()), " after ",
                                                                        absl::FormatDuration(*arguments.timeout),
                                                                        ", and not yet at ", arguments.condition))};
    }
    const absl::StatusOr<std::optional<v1::JobEvent>> event = feed.Next(std::min(kPoll, left));
    if (!event.ok()) return LostFailure(event.status(), arguments.job, job.status());
    if (!event->has_value() && !(is_stale && client.IsConnected())) continue;
    const bool has_asked = !event->has_value() || !(*event)->has_step();
    const absl::Status status = event->has_value() ? Update(client, **event, job) : Ask(client, job);
    if (!status.ok() && !MayWait(status, condition, job)) return LostFailure(status, arguments.job, job.status());
    is_stale = !status.ok() || (is_stale && !has_asked);
    if (!status.ok() && !IsTerminal(job.status().state())) continue;
    const WaitProgress progress = Evaluate(condition, job);
    if (progress == WaitProgress::kMet) return Met(condition, job, arguments);
    if (progress == WaitProgress::kNever) return NeverFailure(arguments, job.status());
  }
  std::cerr << "detached: job " << arguments.job << " goes on\n";
  return kExitInterrupted;
}

}  // namespace

void AddWait(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<WaitArguments>();
  CLI::App* verb = AddVerb(root, "wait", "until a job has come to something; by default to its end",
                           "  stagecoach wait JOB\n"
                           "  stagecoach wait JOB --for=running --timeout 1m\n"
                           "  stagecoach wait JOB --for=step=100");
  verb->add_option("job", arguments->job)->required()->type_name("JOB");
  verb->add_option("--for", arguments->condition, "running, step=N, checkpoint or terminal")
      ->check([](const std::string& text) { return std::string(ParseWaitCondition(text).status().message()); })
      ->type_name("running|step=N|checkpoint|terminal");
  AddDurationOption(*verb, "--timeout", arguments->timeout, "exit 7 after so long");
  AddServerOptions(*verb, arguments->server);
  AddFormatOption(*verb, arguments->output, {"text", "json", "yaml"});
  verb->callback([&invocation, arguments] {
    invocation.run = [arguments] {
      return AskCoordinator(arguments->server, arguments->output,
                            [&](CoordinatorClient& client) { return Wait(client, *arguments); });
    };
  });
}

}  // namespace stagecoach
