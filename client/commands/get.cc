#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/commands/checkpoint_list.h"
#include "client/commands/command.h"
#include "client/commands/event_list.h"
#include "client/commands/interrupts.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/coordinator_client/enum_text.h"
#include "client/output/job_view.h"
#include "client/output/worker_view.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/status_macros.h"
#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kWatchInterval = absl::Seconds(1);
constexpr absl::Duration kSignalPoll = absl::Milliseconds(100);

struct GetArguments {
  std::string name;  // empty: all
  bool watch = false;
  ServerArguments server;
  OutputArguments output;

  bool wide() const { return output.format == "wide"; }
};

Listing JobListing(const std::vector<v1::Job>& jobs, bool wide) {
  Listing listing{.key = "jobs", .table = Table(JobHeaders(wide))};
  for (const v1::Job& job : jobs) {
    listing.names.push_back(job.status().job());
    listing.items.push_back(JobJson(job));
    listing.table.AddRow(JobRow(job, absl::Now(), wide));
  }
  return listing;
}

Listing WorkerListing(const std::vector<v1::WorkerDescription>& workers, bool wide) {
  Listing listing{.key = "workers", .table = Table(WorkerHeaders(wide))};
  for (const v1::WorkerDescription& worker : workers) {
    listing.names.push_back(worker.name());
    listing.items.push_back(WorkerJson(worker));
    listing.table.AddRow(WorkerRow(worker, wide));
  }
  return listing;
}

// What has changed since it was last asked for. Ages change all the time, and are left out.
class Changes {
 public:
  bool Take(const std::string& name, Json now) {
    now.erase("last_seen_seconds");
    const auto [known, is_new] = known_.try_emplace(name, now);
    if (is_new) return true;
    return std::exchange(known->second, now) != now;
  }

 private:
  std::map<std::string, Json> known_;
};

// Prints what `list` gives and, with --watch, what of it has changed, until it is interrupted.
Outcome ListOrWatch(const GetArguments& arguments, const std::function<absl::StatusOr<Listing>(Changes&)>& list) {
  Changes changes;
  OutputArguments output = arguments.output;
  if (arguments.watch && (output.is_json() || output.format == "yaml")) output.format = "jsonl";
  std::optional<Interrupts> interrupts;
  if (arguments.watch) interrupts.emplace(Interrupts::Second::kEndsProcess);
  const auto keep_on = [&] { return interrupts && interrupts->count() == 0; };
  do {
    const absl::StatusOr<Listing> listing = list(changes);
    if (!listing.ok()) return listing.status();
    if (!listing->items.empty() || !output.no_headers) PrintListing(*listing, output);
    std::cout << std::flush;
    output.no_headers = true;
    const Clock& clock = Clock::Real();
    const absl::Duration next = clock.Now() + kWatchInterval;
    while (keep_on() && clock.Now() < next) absl::SleepFor(kSignalPoll);
  } while (keep_on());
  return arguments.watch ? kExitInterrupted : kExitOk;
}

// The specification, such that it can be submitted again; what became of the job is in a comment.
void PrintSpecOf(const v1::Job& job) {
  std::cout << "# "
            << Printable(absl::StrCat("job ", job.status().job(), ": ", EnumText(job.status().state()), ", step ",
                                      job.status().step()))
            << "\n"
            << PrintJobSpec(job.spec());
}

Outcome GetJobs(CoordinatorClient& client, const GetArguments& arguments) {
  if (arguments.name.empty() || arguments.watch) {
    return ListOrWatch(arguments, [&](Changes& changes) -> absl::StatusOr<Listing> {
      STAGECOACH_ASSIGN_OR_RETURN(const v1::ListJobsResponse all, client.ListJobs());
      std::vector<v1::Job> jobs;
      for (const v1::Job& job : all.jobs()) {
        const std::string& name = job.status().job();
        if (arguments.name.empty() || arguments.name == name) {
          if (changes.Take(name, JobJson(job))) jobs.push_back(job);
        }
      }
      return JobListing(jobs, arguments.wide());
    });
  }
  const absl::StatusOr<v1::Job> job = client.GetJob(arguments.name);
  if (!job.ok()) return job.status();
  const std::string& format = arguments.output.format;
  if (format == "yaml" && !arguments.output.quiet) {
    PrintSpecOf(*job);
  } else if ((format == "json" || format == "jsonl") && !arguments.output.quiet) {
    PrintObject(JobJson(*job), format);
  } else {
    PrintListing(JobListing({*job}, arguments.wide()), arguments.output);
  }
  return kExitOk;
}

Outcome GetWorkers(CoordinatorClient& client, const GetArguments& arguments) {
  if (arguments.name.empty() || arguments.watch) {
    return ListOrWatch(arguments, [&](Changes& changes) -> absl::StatusOr<Listing> {
      STAGECOACH_ASSIGN_OR_RETURN(const v1::ListWorkersResponse all, client.ListWorkers());
      std::vector<v1::WorkerDescription> workers;
      for (const v1::WorkerDescription& worker : all.workers()) {
        if (arguments.name.empty() || arguments.name == worker.name()) {
          if (changes.Take(worker.name(), WorkerJson(worker))) workers.push_back(worker);
        }
      }
      return WorkerListing(workers, arguments.wide());
    });
  }
  const absl::StatusOr<v1::ListWorkersResponse> all = client.ListWorkers();
  if (!all.ok()) return all.status();
  const auto found = std::find_if(all->workers().begin(), all->workers().end(),
                                  [&](const v1::WorkerDescription& w) { return w.name() == arguments.name; });
  if (found == all->workers().end()) return absl::NotFoundError("there is no worker " + arguments.name);
  const std::string& format = arguments.output.format;
  if ((format == "json" || format == "jsonl" || format == "yaml") && !arguments.output.quiet) {
    PrintObject(WorkerJson(*found), format);
  } else {
    PrintListing(WorkerListing({*found}, arguments.wide()), arguments.output);
  }
  return kExitOk;
}

absl::StatusOr<std::vector<v1::Job>> JobsOf(CoordinatorClient& client, const std::string& name) {
  if (!name.empty()) {
    STAGECOACH_ASSIGN_OR_RETURN(v1::Job job, client.GetJob(name));
    return std::vector<v1::Job>{std::move(job)};
  }
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ListJobsResponse all, client.ListJobs());
  return std::vector<v1::Job>(all.jobs().begin(), all.jobs().end());
}

// Where they are the coordinator knows; what they are their manifests say.
Outcome GetCheckpoints(CoordinatorClient& client, const GetArguments& arguments) {
  return ListOrWatch(arguments, [&](Changes& changes) -> absl::StatusOr<Listing> {
    STAGECOACH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, JobsOf(client, arguments.name));
    std::vector<FoundCheckpoint> found;
    for (const v1::Job& job : jobs) {
      absl::StatusOr<std::vector<FoundCheckpoint>> of_job = CheckpointsOfJob(FileSystem::Posix(), job);
      if (!of_job.ok()) {
        // An error of this machine's files, not an answer of the coordinator.
        const std::string message(of_job.status().message());
        if (!arguments.name.empty()) return absl::UnknownError(message);
        const bool is_new = changes.Take(job.status().job(), {{"message", message}});
        if (is_new) std::cerr << "stagecoach: " << Printable(message) << "\n";
        continue;
      }
      for (FoundCheckpoint& one : *of_job) {
        if (changes.Take(one.checkpoint.path, CheckpointJson(one))) found.push_back(std::move(one));
      }
    }
    return CheckpointListing(found);
  });
}

using Get = Outcome (*)(CoordinatorClient&, const GetArguments&);

Outcome GetEvents(CoordinatorClient& client, const GetArguments& arguments) {
  return ListEvents(client, arguments.name, {.with_steps = false}, arguments.output);
}

void AddGetVerb(CLI::App& parent, Invocation& invocation, const std::vector<std::string>& names,
                const std::string& summary, const std::string& examples, Get get) {
  auto arguments = std::make_shared<GetArguments>();
  CLI::App* verb = AddVerb(parent, names.front(), summary, examples);
  for (size_t i = 1; i < names.size(); ++i) verb->alias(names[i]);
  verb->add_option("name", arguments->name, "only this one")->type_name(get == GetWorkers ? "WORKER" : "JOB");
  if (get != GetEvents) {
    verb->add_flag("-w,--watch", arguments->watch, "then whatever changes, until Ctrl-C; JSON as one object a line");
  }
  AddServerOptions(*verb, arguments->server);
  AddTableOptions(*verb, arguments->output, kListFormats);
  verb->callback([&invocation, arguments, get] {
    invocation.run = [arguments, get] {
      return AskCoordinator(arguments->server, arguments->output,
                            [&](CoordinatorClient& client) { return get(client, *arguments); });
    };
  });
}

}  // namespace

void AddGet(CLI::App& root, Invocation& invocation) {
  CLI::App* get = AddVerb(root, "get", "list jobs, workers, checkpoints or events",
                          "  stagecoach get jobs\n"
                          "  stagecoach get workers -o json\n"
                          "  stagecoach get job NAME -o yaml");
  get->require_subcommand(1);
  AddGetVerb(*get, invocation, {"jobs", "job"}, "jobs, in the order of their submission; ended ones too",
             "  stagecoach get jobs -w\n"
             "  stagecoach get job NAME -o json\n"
             "  stagecoach get job NAME -o yaml | stagecoach submit -",
             GetJobs);
  AddGetVerb(*get, invocation, {"workers", "worker"}, "workers, lost ones for ten minutes too",
             "  stagecoach get workers -o wide\n"
             "  stagecoach get workers -o json",
             GetWorkers);
  AddGetVerb(*get, invocation, {"checkpoints", "checkpoint"},
             "complete ones of a job, or of all, by their manifests, the newest first",
             "  stagecoach get checkpoints\n"
             "  stagecoach get checkpoints JOB -o json",
             GetCheckpoints);
  AddGetVerb(*get, invocation, {"events", "event"}, "what has happened to a job, or to all; without the steps",
             "  stagecoach get events\n"
             "  stagecoach get events JOB -o jsonl",
             GetEvents);
  AddGetVerb(root, invocation, {"ps"}, "the same as get jobs", "  stagecoach ps", GetJobs);
}

}  // namespace stagecoach
