#ifndef STAGECOACH_TESTS_BENCH_SIMULATED_CLUSTER_H_
#define STAGECOACH_TESTS_BENCH_SIMULATED_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cluster/child_process.h"
#include "client/coordinator_client/coordinator_client.h"
#include "stagecoach/v1/job.pb.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {

// Seconds of one step, all of which are to be compared with what a simulator predicts.
struct MeasuredStep {
  double span = 0;      // of the program, at the worker where it took longest: from its order to its last instruction
  double verdict = 0;   // from the order to the verdict, by the coordinator's clock: what bubble_ratio is of
  double interval = 0;  // from the verdict before it to its own: with the update
};

// A coordinator and simulated workers, each a process of its own, which train jobs one after another. Whatever goes
// wrong ends the program with a message. Used by the main thread: the processes end with it.
class SimulatedCluster {
 public:
  struct Options {
    uint32_t num_workers = 1;
    std::string block_seconds;  // as --simulated-block-seconds
    std::string transport = "ucx";
  };
  // The programs are beside this one.
  explicit SimulatedCluster(const Options& options);

  // To the end. Of the last `num_steps` steps those that the workers keep the timeline of.
  std::vector<MeasuredStep> Train(const v1::JobSpec& spec, uint32_t num_steps);

 private:
  void Start(const std::string& name, const std::string& program, const std::vector<std::string>& arguments);
  void StartCoordinator();
  void StartWorkers(const Options& options);
  // Ends the program when a process has ended, or the deadline has passed.
  void CheckAllLive(absl::Time deadline);
  std::string Submit(const v1::JobSpec& spec);
  void WaitFor(const std::string& job);
  // With the ends of the logs.
  [[noreturn]] void Fail(const std::string& what) const;

  struct Process {
    std::string name;
    std::unique_ptr<ChildProcess> process;
  };

  const TemporaryDirectory directory_;
  std::vector<Process> processes_;  // the coordinator first
  std::string address_;
  std::unique_ptr<CoordinatorClient> client_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_BENCH_SIMULATED_CLUSTER_H_
