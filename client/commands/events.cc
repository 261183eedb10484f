#include <iostream>
#include <memory>

#include "client/commands/command.h"
#include "client/commands/event_list.h"
#include "client/commands/follow.h"
#include "client/commands/interrupts.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/coordinator_client/job_states.h"
#include "client/output/event_view.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

struct EventsArguments {
  std::string job;
  bool follow = false;
  EventFilter filter;
  ServerArguments server;
  OutputArguments output;
};

void PrintEvent(const v1::JobEvent& event, const EventsArguments& arguments) {
  if (arguments.output.format == "jsonl" || arguments.output.is_json()) {
    std::cout << PrintJsonText(EventJson(arguments.job, event), JsonForm::kOneLine) << "\n" << std::flush;
    return;
  }
  const bool wide = arguments.output.format == "wide";
  Table table(EventHeaders(wide));
  table.AddRow(EventRow(arguments.job, event, wide));
  std::cout << table.Text({.headers = false, .colour = arguments.output.colour()}) << std::flush;
}

Outcome ShowEvents(CoordinatorClient& client, const EventsArguments& arguments) {
  if (!arguments.follow) return ListEvents(client, arguments.job, arguments.filter, arguments.output);
  const Interrupts interrupts(Interrupts::Second::kEndsProcess);
  JobFeed feed(client, arguments.job, {.reconnect = Reconnecting(arguments.server)});
  while (!IsTerminal(feed.status().state())) {
    if (interrupts.count() > 0) {
      std::cerr << "detached: job " << arguments.job << " goes on\n";
      return kExitInterrupted;
    }
    const absl::StatusOr<std::optional<v1::JobEvent>> event = feed.Next(kPoll);
    if (!event.ok()) return LostFailure(event.status(), arguments.job, feed.status());
    if (event->has_value() && arguments.filter.Takes(**event)) PrintEvent(**event, arguments);
  }
  return ExitCodeOf(feed.status().state());
}

}  // namespace

void AddEvents(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<EventsArguments>();
  CLI::App* verb = AddVerb(root, "events", "what has happened to a job: states, epochs, checkpoints",
                           "  stagecoach events JOB\n"
                           "  stagecoach events JOB -f --steps -o jsonl");
  verb->add_option("job", arguments->job)->required()->type_name("JOB");
  verb->add_flag("-f,--follow", arguments->follow, "until the job's end; the exit code is the job's");
  verb->add_flag("--steps", arguments->filter.with_steps, "steps and validation losses too");
  AddServerOptions(*verb, arguments->server);
  AddTableOptions(*verb, arguments->output, kListFormats);
  verb->callback([&invocation, arguments] {
    invocation.run = [arguments] {
      return AskCoordinator(arguments->server, arguments->output,
                            [&](CoordinatorClient& client) { return ShowEvents(client, *arguments); });
    };
  });
}

}  // namespace stagecoach
