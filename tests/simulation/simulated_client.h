#ifndef STAGECOACH_TESTS_SIMULATION_SIMULATED_CLIENT_H_
#define STAGECOACH_TESTS_SIMULATION_SIMULATED_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "tests/simulation/follow_stream.h"
#include "tests/simulation/job_laws.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_coordinator.h"
#include "tests/simulation/world.h"

namespace stagecoach::simulation {

// The coordinator that answers now; null: none does.
using FindCoordinator = std::function<SimulatedCoordinator*()>;

// Follows a job to its end over any number of coordinators, and checks that it sees each step once, in order, and the
// end once.
class SimulatedFollower {
 public:
  SimulatedFollower(World& world, const JobLaws& laws, FindCoordinator find, std::string job, bool only_new)
      : world_(world), laws_(laws), find_(std::move(find)), job_(std::move(job)), only_new_(only_new) {
    Dial();
  }
  bool done() const { return done_; }

 private:
  void Dial();
  void OnEvent(const v1::JobEvent& event);
  void OnStep(const v1::JobEvent& event);
  void CheckAnnounced(const v1::JobEvent& event);
  void OnValidation(const v1::Validation& validation);
  void OnEnd(const absl::Status& why);
  void Violate(const std::string& what);

  World& world_;
  const JobLaws& laws_;
  const FindCoordinator find_;
  const std::string job_;
  const bool only_new_;
  std::shared_ptr<FollowStream> stream_;
  std::optional<uint64_t> token_;  // of the last event that was seen
  std::optional<uint64_t> last_step_;
  std::optional<uint64_t> last_step_of_stream_;
  uint64_t last_validated_step_ = 0;
  bool saw_end_ = false;
  bool done_ = false;
};

// Submits one job, and does with it what it is told, each until it is answered.
class SimulatedClient {
 public:
  SimulatedClient(World& world, const JobLaws& laws, FindCoordinator find, v1::JobSpec spec);

  void Submit();
  void Do(Request request);

  const std::optional<std::string>& job() const { return job_; }
  const v1::JobSpec& spec() const { return spec_; }
  bool followers_done() const;

 private:
  void Follow(bool only_new);
  using MakeInput = std::function<Input(uint64_t)>;
  void Ask(const std::string& what, MakeInput make_input, SimulatedCoordinator::Answer answer);
  void AskAboutJob(const std::string& what, std::function<Input(uint64_t, const JobId&)> make_input);

  World& world_;
  const JobLaws& laws_;
  const FindCoordinator find_;
  const v1::JobSpec spec_;
  const std::string submission_id_;
  std::optional<std::string> job_;
  std::vector<std::unique_ptr<SimulatedFollower>> followers_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SIMULATED_CLIENT_H_
