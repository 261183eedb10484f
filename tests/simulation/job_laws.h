#ifndef STAGECOACH_TESTS_SIMULATION_JOB_LAWS_H_
#define STAGECOACH_TESTS_SIMULATION_JOB_LAWS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/jobs/job_record.h"
#include "stagecoach/v1/checkpoint.pb.h"
#include "stagecoach/v1/journal.pb.h"
#include "stagecoach/v1/worker.pb.h"
#include "tests/simulation/reference_training.h"
#include "tests/simulation/simulated_stage_state.h"
#include "tests/simulation/world.h"

namespace stagecoach::simulation {

// The bitwise and the commit law: told of every entry of the journal and of every change of a layer, it compares both
// with each other and with what the job must come to.
class JobLaws {
 public:
  explicit JobLaws(World& world) : world_(world) {}

  // In the order of the journal.
  void OnAppended(const v1::JournalEntry& entry);
  // Old steps are not there any more.
  void OnCompacted() { was_compacted_ = true; }
  // All that is left of it after a loss of power.
  void OnPowerLost(const std::vector<v1::JournalEntry>& journal);

  void OnUpdate(const std::string& worker, const JobId& job, const SimulatedStageState& state,
                const v1::CommitRecord& record);
  // What a worker has of the job once an abort with this last commit is done.
  void OnAborted(const std::string& worker, const JobId& job, uint64_t applied_step,
                 const v1::CommitRecord& last_commit);
  // A worker that has a state of the job is asked to go on in a new epoch after this commit: whether it can.
  void OnJoined(const std::string& worker, const JobId& job, uint64_t applied_step,
                const v1::CommitRecord& last_commit);
  // Gradients that a worker has voted on are gone, and were not applied.
  void OnGradientsDropped(const std::string& worker, const JobId& job, uint64_t step);
  // Whose numbers are comparable: of the workers that have this name.
  void SetNumericsClass(const std::string& worker, const std::string& numerics_class) {
    numerics_classes_[worker] = numerics_class;
  }
  void OnManifest(const JobId& job, const std::string& directory, const v1::CheckpointManifest& manifest);

  uint64_t LastStep(const std::string& job) const;  // that is journalled
  bool power_was_lost() const { return power_was_lost_; }
  bool was_compacted() const { return was_compacted_; }

 private:
  struct Job {
    std::unique_ptr<ReferenceTraining> reference;
    std::shared_ptr<const JobPlan> plan;
    v1::JobSpec spec;
    uint64_t last_step = 0;
    uint64_t last_epoch = 0;
    bool ended = false;
    absl::Duration epoch_began;
    // Steps that were ever journalled: a loss of power may have taken the last ones.
    uint64_t ever_committed = 0;
  };

  void Violate(absl::string_view law, absl::string_view job, absl::string_view what);
  Job* Find(const std::string& job);
  void OnSubmitted(const v1::JobSubmitted& submitted);
  void OnEpochStarted(const v1::EpochStarted& started, Job& job);
  void OnCommitted(const v1::StepCommitted& committed, Job& job);
  void OnStateChanged(const v1::JobStateChanged& change, Job& job);

  World& world_;
  std::map<std::string, Job> jobs_;
  std::set<std::string> submissions_;
  std::map<std::string, std::string> numerics_classes_;
  uint64_t last_sequence_ = 0;
  bool power_was_lost_ = false;
  bool was_compacted_ = false;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_JOB_LAWS_H_
