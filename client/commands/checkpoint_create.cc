#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/duration_option.h"
#include "client/commands/follow.h"
#include "client/commands/interrupts.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/coordinator_client/enum_text.h"
#include "client/coordinator_client/job_feed.h"
#include "client/coordinator_client/job_states.h"
#include "common/clock.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

struct CreateArguments {
  std::string job;
  bool no_wait = false;
  std::optional<absl::Duration> timeout;
  ServerArguments server;
  OutputArguments output;
};

// The first checkpoint of `step` or a later one, or why there is none. Nothing: not yet.
absl::StatusOr<std::optional<std::string>> CheckpointOf(CoordinatorClient& client, const v1::JobEvent& event,
                                                        const std::string& id, uint64_t step) {
  if (event.note().reason() == "CheckpointFailed") return absl::AbortedError(event.note().message());
  const bool has_ended = event.has_status() && IsTerminal(event.status().state());
  if (!has_ended && event.note().reason() != "CheckpointCompleted") return std::optional<std::string>();
  const absl::StatusOr<v1::Job> job = client.GetJob(id);
  if (!job.ok()) return job.status();
  if (job->checkpoint_step() >= step && !job->checkpoint_directory().empty()) return job->checkpoint_directory();
  if (!has_ended) return std::optional<std::string>();
  return absl::AbortedError(absl::StrCat("the job has ended without one: ", EnumText(event.status().state()), ": ",
                                         event.status().message()));
}

Outcome AwaitCheckpointOf(CoordinatorClient& client, JobFeed& feed, uint64_t step, const CreateArguments& arguments) {
  const Interrupts interrupts(Interrupts::Second::kEndsProcess);
  const Clock& clock = Clock::Real();
  const absl::Duration deadline = clock.Now() + arguments.timeout.value_or(absl::InfiniteDuration());
  while (interrupts.count() == 0) {
    if (clock.Now() >= deadline) {
      return Failure{.code = kExitTimeout, .status = absl::DeadlineExceededError("the checkpoint is not written yet")};
    }
    const absl::StatusOr<std::optional<v1::JobEvent>> event = feed.Next(kPoll);
    if (!event.ok()) return LostFailure(event.status(), arguments.job, feed.status());
    if (!event->has_value()) continue;
    const auto directory = CheckpointOf(client, **event, arguments.job, step);
    if (absl::IsAborted(directory.status())) return Failure{.code = kExitError, .status = directory.status()};
    if (!directory.ok()) return LostFailure(directory.status(), arguments.job, feed.status());
    if (!directory->has_value()) continue;
    std::cout << **directory << "\n";
    return kExitOk;
  }
  std::cerr << "detached: the checkpoint will be written\n";
  return kExitInterrupted;
}

Outcome Create(CoordinatorClient& client, const CreateArguments& arguments) {
  // The feed begins first, so that nothing happens between the two.
  JobFeed feed(client, arguments.job, {.only_new = true, .reconnect = Reconnecting(arguments.server)});
  absl::StatusOr<std::optional<v1::JobEvent>> current = feed.Next(kPoll);
  while (current.ok() && !current->has_value()) current = feed.Next(kPoll);
  if (!current.ok() && !absl::IsOutOfRange(current.status())) {
    return LostFailure(current.status(), arguments.job, feed.status());
  }
  const uint64_t step = feed.status().step();
  if (const absl::Status status = client.CreateCheckpoint(arguments.job); !status.ok()) return status;
  if (!arguments.no_wait) return AwaitCheckpointOf(client, feed, step, arguments);
  std::cerr << "job " << arguments.job << " writes a checkpoint after the step under way\n";
  return kExitOk;
}

}  // namespace

void AddCheckpointCreate(CLI::App& checkpoint, Invocation& invocation) {
  auto arguments = std::make_shared<CreateArguments>();
  CLI::App* verb =
      AddVerb(checkpoint, "create",
              "of a running or paused job, after the step under way; waits until it is written, and prints "
              "where",
              "  stagecoach checkpoint create JOB");
  verb->add_option("job", arguments->job)->required()->type_name("JOB");
  verb->add_flag("--no-wait", arguments->no_wait, "only ask for it");
  AddDurationOption(*verb, "--timeout", arguments->timeout, "exit 7 after so long");
  AddServerOptions(*verb, arguments->server);
  AddFormatOption(*verb, arguments->output, {"text"});
  verb->callback([&invocation, arguments] {
    invocation.run = [arguments] {
      return AskCoordinator(arguments->server, arguments->output,
                            [&](CoordinatorClient& client) { return Create(client, *arguments); });
    };
  });
}

}  // namespace stagecoach
