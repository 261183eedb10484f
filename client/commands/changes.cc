#include <iostream>
#include <memory>

#include "client/commands/command.h"
#include "client/commands/confirmation.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/coordinator_client/enum_text.h"
#include "client/output/job_view.h"

namespace stagecoach {
namespace {

struct ChangeArguments {
  std::string job;
  bool yes = false;
  bool dry_run = false;
  ServerArguments server;
  OutputArguments output;
};

using Change = absl::Status (CoordinatorClient::*)(const std::string&);

// The change is in the journal; how far it has come is for those who want to know.
Outcome Apply(CoordinatorClient& client, Change change, const std::string& done, const ChangeArguments& arguments) {
  if (const absl::Status status = (client.*change)(arguments.job); !status.ok()) return status;
  std::cerr << "job " << arguments.job << " " << done << "\n";
  if (arguments.output.format == "text") return kExitOk;
  const absl::StatusOr<v1::Job> job = client.GetJob(arguments.job);
  if (!job.ok()) return job.status();
  PrintObject(JobJson(*job), arguments.output.format);
  return kExitOk;
}

Outcome Cancel(CoordinatorClient& client, const ChangeArguments& arguments) {
  if (arguments.dry_run) {
    const absl::StatusOr<v1::Job> job = client.GetJob(arguments.job);
    if (!job.ok()) return job.status();
    std::cerr << "nothing was done: job " << arguments.job << " is " << EnumText(job->status().state()) << " at step "
              << job->status().step() << "\n";
    return kExitOk;
  }
  if (!Confirm("Cancel job " + arguments.job + "?", arguments.yes)) return kExitError;
  return Apply(client, &CoordinatorClient::CancelJob, "ends after the step under way, with a checkpoint", arguments);
}

Outcome Pause(CoordinatorClient& client, const ChangeArguments& arguments) {
  return Apply(client, &CoordinatorClient::PauseJob, "pauses after the step under way, and keeps its workers",
               arguments);
}

Outcome Resume(CoordinatorClient& client, const ChangeArguments& arguments) {
  return Apply(client, &CoordinatorClient::ResumeJob, "goes on", arguments);
}

CLI::App* AddChange(CLI::App& root, Invocation& invocation, const std::string& name, const std::string& summary,
                    Outcome (*change)(CoordinatorClient&, const ChangeArguments&),
                    const std::shared_ptr<ChangeArguments>& arguments) {
  CLI::App* verb = AddVerb(root, name, summary, "  stagecoach " + name + " JOB");
  verb->add_option("job", arguments->job)->required()->type_name("JOB");
  AddServerOptions(*verb, arguments->server);
  AddFormatOption(*verb, arguments->output, {"text", "json", "yaml"});
  verb->callback([&invocation, arguments, change] {
    invocation.run = [arguments, change] {
      return AskCoordinator(arguments->server, arguments->output,
                            [&](CoordinatorClient& client) { return change(client, *arguments); });
    };
  });
  return verb;
}

}  // namespace

void AddChanges(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<ChangeArguments>();
  CLI::App* cancel =
      AddChange(root, invocation, "cancel", "end a job after the step under way, with a checkpoint", Cancel, arguments);
  cancel->add_flag("-y,--yes", arguments->yes, "do not ask; without a terminal nothing is asked");
  cancel->add_flag("--dry-run", arguments->dry_run, "only say what state the job is in");
  AddChange(root, invocation, "pause", "begin no further step; the job keeps its workers and their state", Pause,
            std::make_shared<ChangeArguments>());
  AddChange(root, invocation, "resume", "let a paused job go on", Resume, std::make_shared<ChangeArguments>());
}

}  // namespace stagecoach
