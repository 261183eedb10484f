#include <algorithm>
#include <iostream>
#include <memory>

#include "client/commands/command.h"
#include "client/commands/follow.h"
#include "client/commands/interrupts.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/commands/spec_arguments.h"
#include "client/output/job_view.h"
#include "coordinator/plan/planner.h"

namespace stagecoach {
namespace {

struct SubmitArguments {
  SpecArguments spec;
  ServerArguments server;
  OutputArguments output;
  std::string submission_id;
  bool follow = false;
  bool wait = false;
  bool dry_run = false;

  bool prints_object() const { return output.is_json() || output.format == "yaml"; }
};

JobReport::Format ReportFormat(const SubmitArguments& arguments) {
  if (!arguments.follow) return JobReport::Format::kStatesOnly;
  return arguments.output.format == "jsonl" ? JobReport::Format::kJsonLines : JobReport::Format::kText;
}

void PrintName(const std::string& job) { std::cout << job << "\n" << std::flush; }

void PrintNextSteps(const std::string& job) {
  std::cerr << "Next steps:\n"
            << "  stagecoach get job " << job << "\n"
            << "  stagecoach logs " << job << " -f\n"
            << "  stagecoach wait " << job << "\n"
            << "  stagecoach cancel " << job << "\n";
}

// The job is in the coordinator's journal: from here on its name is what matters most.
Outcome PrintSubmitted(CoordinatorClient& client, const std::string& name, const SubmitArguments& arguments) {
  if (!arguments.prints_object() && arguments.output.format != "jsonl") {
    PrintName(name);
    PrintNextSteps(name);
    return kExitOk;
  }
  const absl::StatusOr<v1::Job> job = client.GetJob(name);
  PrintObject(job.ok() ? JobJson(*job) : Json{{"name", name}}, arguments.output.format);
  return kExitOk;
}

Outcome FollowSubmitted(CoordinatorClient& client, const std::string& name, const v1::JobSpec& spec,
                        const SubmitArguments& arguments) {
  const Interrupts interrupts(Interrupts::Second::kEndsProcess);
  if (!arguments.prints_object() && arguments.output.format != "jsonl") PrintName(name);
  JobReport report(ReportFormat(arguments), spec.training().steps(), spec.metrics().log_interval());
  JobFeed feed(client, name, {.reconnect = Reconnecting(arguments.server)});
  const absl::StatusOr<bool> ended = FollowToEnd(feed, report, [&] { return interrupts.count() == 0; });
  if (!ended.ok()) return LostFailure(ended.status(), name, feed.status());
  if (!*ended) {
    report.OnNote("detached: job " + name + " goes on. To end it: stagecoach cancel " + name);
    return kExitInterrupted;
  }
  const v1::Job job = DescribeEnded(client, feed.status());
  if (arguments.prints_object()) {
    PrintObject(JobJson(job), arguments.output.format);
  } else if (arguments.output.format != "name") {
    report.OnEnd(job);
  }
  return ExitCodeOf(job.status().state());
}

int Submit(const SubmitArguments& arguments) {
  const std::optional<v1::JobSpec> spec = LoadSpec(arguments.spec, arguments.output.is_json());
  if (!spec) return kExitUsage;
  const uint32_t stages = std::max(1u, spec->parallelism().pipeline_parallel_degree());
  if (const auto plan = PlanJobWith(*spec, std::vector<WorkerProfile>(stages), {.searches_order = false}); !plan.ok()) {
    return ReportFailure({.code = kExitUsage, .status = plan.status()}, {.json = arguments.output.is_json()});
  }
  if (arguments.dry_run) {
    std::cerr << "nothing was submitted: the specification is valid\n";
    PrintName(spec->name());
    return kExitOk;
  }
  return AskCoordinator(arguments.server, arguments.output, [&](CoordinatorClient& client) -> Outcome {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = *spec;
    request.set_submission_id(arguments.submission_id);
    const absl::StatusOr<std::string> name = client.SubmitJob(std::move(request));
    if (!name.ok()) return name.status();
    if (!arguments.follow && !arguments.wait) return PrintSubmitted(client, *name, arguments);
    return FollowSubmitted(client, *name, *spec, arguments);
  });
}

}  // namespace

void AddSubmit(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<SubmitArguments>();
  CLI::App* verb = AddVerb(root, "submit", "hand a job to the coordinator, and print its name",
                           "  stagecoach submit examples/tiny.yaml\n"
                           "  stagecoach submit examples/tiny.yaml --set training.steps=100 --follow\n"
                           "  stagecoach get job tiny -o yaml | stagecoach submit -");
  AddSpecArguments(*verb, arguments->spec);
  verb->add_option("--submission-id", arguments->submission_id,
                   "the same one with the same specification is the same job")
      ->type_name("ID");
  CLI::Option* follow =
      verb->add_flag("--follow", arguments->follow, "show every step until the job's end; the exit code is the job's");
  verb->add_flag("--wait", arguments->wait, "until the job's end, without the steps")->excludes(follow);
  verb->add_flag("--dry-run", arguments->dry_run, "check the specification and stop");
  AddServerOptions(*verb, arguments->server);
  AddFormatOption(*verb, arguments->output, {"text", "name", "json", "yaml", "jsonl"});
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Submit(*arguments); }; });
}

}  // namespace stagecoach
