#include "tests/simulation/simulation.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"
#include "tests/simulation/coordinator_host.h"
#include "tests/simulation/fault_injector.h"
#include "tests/simulation/plan_catalog.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_client.h"
#include "tests/simulation/worker_host.h"

namespace stagecoach::simulation {
namespace {

// From the end of the faults to the end of the last job: leases, verdicts and reattachment, and then the work.
constexpr absl::Duration kLongestRecovery = absl::Seconds(90);
// Whatever is still on its way when the last job has ended.
constexpr absl::Duration kAftermath = absl::Seconds(15);

const World* running_world = nullptr;  // for ReportOnAbort
uint64_t running_seed = 0;

// All parts of one run.
class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : world_(options.seed, options.print, options.bug),
        scenario_(DrawScenario(world_.random)),
        network_(world_),
        data_(world_),
        laws_(world_),
        to_{world_, network_, data_, laws_},
        coordinator_(to_, scenario_) {
    running_world = &world_;
    running_seed = options.seed;
    for (uint32_t i = 0; i < scenario_.num_workers; ++i) {
      workers_.push_back(
          std::make_unique<WorkerHost>(to_, absl::StrCat("w", i), absl::StrCat("class ", i % scenario_.num_classes)));
    }
    for (size_t i = 0; i < scenario_.jobs.size(); ++i) PlanJobs(i, scenario_.jobs[i], options.seed);
    faults_ = std::make_unique<FaultInjector>(to_, scenario_, coordinator_, workers_);
    world_.scheduler.After(scenario_.faults_end + absl::Milliseconds(100), [this] { ResumeJobs(); });
  }
  ~Simulation() { running_world = nullptr; }

  SimulationOutcome Run() {
    const absl::Duration deadline = scenario_.faults_end + kLongestRecovery;
    while (!world_.violations.first().has_value() && !AllJobsHaveEnded() && world_.now() < deadline) {
      if (!world_.scheduler.RunNext()) break;
    }
    if (!AllJobsHaveEnded()) ReportStuckJobs();
    const absl::Duration end = world_.now() + kAftermath;
    while (!world_.violations.first().has_value() && world_.now() < end && world_.scheduler.RunNext()) {
    }
    CheckAftermath();
    return Outcome();
  }

 private:
  void PlanJobs(size_t index, const JobPlanned& job, uint64_t seed) {
    v1::JobSpec spec =
        SmallSpec(absl::StrCat("job", index), job.degree, job.steps, job.validation_interval, Mix(seed, index));
    spec.mutable_model()->mutable_config()->set_hidden_size(job.hidden_size);
    if (job.automatic_size) spec.mutable_training()->clear_micro_batch_size();
    spec.mutable_parallelism()->set_costs(job.measured_costs ? "measured" : "analytic");
    spec.mutable_checkpoint()->set_interval_steps(job.checkpoint_interval);
    spec.mutable_checkpoint()->set_async(job.checkpoints_behind_training);
    clients_.push_back(std::make_unique<SimulatedClient>(
        world_, laws_, [this] { return coordinator_.current(); }, spec));
    SimulatedClient& client = *clients_.back();
    world_.scheduler.After(job.at, [&client] { client.Submit(); });
    for (const ClientCall& call : job.calls) {
      world_.scheduler.After(call.at, [&client, call] { client.Do(call.request); });
    }
  }

  // Nobody keeps a job paused for ever.
  void ResumeJobs() {
    bool all_ended = true;
    for (const auto& client : clients_) {
      if (!client->job().has_value()) {
        all_ended = false;
        continue;
      }
      const auto job = coordinator_.state().jobs().find(JobId(*client->job()));
      if (job == coordinator_.state().jobs().end()) continue;
      all_ended = all_ended && HasEnded(job->second.history.state);
      if (job->second.history.state == v1::JOB_STATE_PAUSED) client->Do(Request::kResume);
    }
    if (!all_ended) world_.scheduler.After(absl::Seconds(1), [this] { ResumeJobs(); });
  }

  bool HasEndedJob(const SimulatedClient& client) {
    if (!client.job().has_value()) return false;
    const auto job = coordinator_.state().jobs().find(JobId(*client.job()));
    return job != coordinator_.state().jobs().end() && HasEnded(job->second.history.state);
  }

  bool AllJobsHaveEnded() {
    if (!faults_->healed()) return false;
    for (const auto& client : clients_) {
      if (!HasEndedJob(*client)) return false;
    }
    return true;
  }

  void ReportStuckJobs() {
    for (const auto& client : clients_) {
      if (HasEndedJob(*client)) continue;
      const std::string id = client->job().value_or("");
      const auto job = coordinator_.state().jobs().find(JobId(id));
      if (job == coordinator_.state().jobs().end()) {
        return world_.violations.Report("no job stuck", absl::StrCat(client->spec().name(), " was never submitted"));
      }
      const JobHistory& history = job->second.history;
      world_.violations.Report(
          "no job stuck",
          absl::StrCat("job ", id, " is ", JobStateName(history.state), " (", history.reason, ": ", history.message,
                       "), phase ", static_cast<int>(job->second.progress.phase), ", long after the last fault"));
    }
  }

  void CheckAftermath() {
    for (const auto& [id, job] : coordinator_.state().jobs()) {
      if (!scenario_.benign || job.history.state != v1::JOB_STATE_FAILED) continue;
      world_.violations.Report("benign faults",
                               absl::StrCat("job ", id.value(), " has failed by faults that lose nothing (",
                                            job.history.reason, "): ", job.history.message));
    }
    for (const auto& client : clients_) {
      if (!client->followers_done()) {
        world_.violations.Report("followers", absl::StrCat(client->spec().name(), ": the end was not shown"));
      }
    }
    for (const auto& [id, worker] : coordinator_.state().workers()) {
      if (!worker.job.has_value() && (!worker.clearing || !worker.session.has_value())) continue;
      world_.violations.Report("released", absl::StrCat("the coordinator takes worker ", id.value(), " for busy"));
    }
    for (const auto& host : workers_) {
      for (const auto& process : host->processes()) {
        if (!process->alive() || !process->holds_job()) continue;
        world_.violations.Report("released", absl::StrCat("worker ", process->host(), " still holds a job"));
      }
    }
  }

  SimulationOutcome Outcome() {
    SimulationOutcome outcome;
    outcome.violation = world_.violations.first();
    outcome.last_events.assign(world_.trace.last().begin(), world_.trace.last().end());
    outcome.trace_hash = world_.trace.hash();
    outcome.num_events = world_.trace.num_lines();
    outcome.coverage = world_.coverage;
    outcome.virtual_seconds = absl::ToDoubleSeconds(world_.now());
    for (const auto& [id, job] : coordinator_.state().jobs()) {
      outcome.num_succeeded += job.history.state == v1::JOB_STATE_SUCCEEDED ? 1 : 0;
      outcome.num_failed += job.history.state == v1::JOB_STATE_FAILED ? 1 : 0;
      outcome.num_cancelled += job.history.state == v1::JOB_STATE_CANCELLED ? 1 : 0;
      outcome.num_steps += job.history.last_commit.step();
      outcome.num_recoveries += job.history.num_epochs - std::min<uint64_t>(job.history.num_epochs, 1);
    }
    return outcome;
  }

  World world_;
  const Scenario scenario_;
  Network network_;
  DataPlane data_;
  JobLaws laws_;
  const Surroundings to_;
  CoordinatorHost coordinator_;
  std::vector<std::unique_ptr<WorkerHost>> workers_;
  std::vector<std::unique_ptr<SimulatedClient>> clients_;
  std::unique_ptr<FaultInjector> faults_;
};

void PrintLastEvents(int /*signal*/) {
  if (running_world == nullptr) return;
  std::fprintf(stderr, "seed %llu ended in abort(); the last events:\n", static_cast<unsigned long long>(running_seed));
  for (const std::string& line : running_world->trace.last()) std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace

SimulationOutcome Simulate(const SimulationOptions& options) { return Simulation(options).Run(); }

void ReportOnAbort() { std::signal(SIGABRT, PrintLastEvents); }

}  // namespace stagecoach::simulation
