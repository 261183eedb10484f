#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/time/clock.h"
#include "client/commands/command.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/output/job_view.h"
#include "client/output/worker_view.h"

namespace stagecoach {
namespace {

struct DescribeArguments {
  std::string name;
  ServerArguments server;
  OutputArguments output;
};

Outcome DescribeJob(CoordinatorClient& client, const DescribeArguments& arguments) {
  const absl::StatusOr<v1::Job> job = client.GetJob(arguments.name);
  if (!job.ok()) return job.status();
  if (arguments.output.format == "text") {
    std::cout << JobText(*job, absl::Now(), arguments.output.colour());
  } else {
    PrintObject(JobJson(*job), arguments.output.format);
  }
  return kExitOk;
}

Outcome DescribeWorker(CoordinatorClient& client, const DescribeArguments& arguments) {
  const absl::StatusOr<v1::ListWorkersResponse> all = client.ListWorkers();
  if (!all.ok()) return all.status();
  for (const v1::WorkerDescription& worker : all->workers()) {
    if (worker.name() != arguments.name) continue;
    if (arguments.output.format == "text") {
      std::cout << WorkerText(worker, arguments.output.colour());
    } else {
      PrintObject(WorkerJson(worker), arguments.output.format);
    }
    return kExitOk;
  }
  return absl::NotFoundError("there is no worker " + arguments.name);
}

using Describe = Outcome (*)(CoordinatorClient&, const DescribeArguments&);

void AddDescribeVerb(CLI::App& parent, Invocation& invocation, const std::string& what, const std::string& summary,
                     Describe describe) {
  auto arguments = std::make_shared<DescribeArguments>();
  CLI::App* verb = AddVerb(parent, what, summary, "  stagecoach describe " + what + " NAME");
  verb->add_option("name", arguments->name)->required()->type_name(what == "job" ? "JOB" : "WORKER");
  AddServerOptions(*verb, arguments->server);
  AddTableOptions(*verb, arguments->output, {"text", "json", "yaml"});
  verb->callback([&invocation, arguments, describe] {
    invocation.run = [arguments, describe] {
      return AskCoordinator(arguments->server, arguments->output,
                            [&](CoordinatorClient& client) { return describe(client, *arguments); });
    };
  });
}

}  // namespace

void AddDescribe(CLI::App& root, Invocation& invocation) {
  CLI::App* describe = AddVerb(root, "describe", "all that is known of a job or a worker",
                               "  stagecoach describe job NAME\n"
                               "  stagecoach describe worker worker-0");
  describe->require_subcommand(1);
  AddDescribeVerb(*describe, invocation, "job", "state, root cause, stages and workers, checkpoint", DescribeJob);
  AddDescribeVerb(*describe, invocation, "worker", "state, job, device, process", DescribeWorker);
}

}  // namespace stagecoach
