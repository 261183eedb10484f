#ifndef STAGECOACH_TESTS_SIMULATION_SIMULATED_JOURNAL_H_
#define STAGECOACH_TESTS_SIMULATION_SIMULATED_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/journal/store.h"
#include "stagecoach/v1/journal.pb.h"
#include "tests/simulation/job_laws.h"
#include "tests/simulation/world.h"

namespace stagecoach::simulation {

// The coordinator's disk. What was not synced survives the process, and a part of it a loss of power.
struct SimulatedDisk {
  std::vector<v1::JournalEntry> entries;
  size_t num_synced = 0;
  bool is_full = false;  // appends fail

  void LosePower(Random& random) {
    entries.resize(num_synced + random.Below(entries.size() - num_synced + 1));
    num_synced = entries.size();
  }
};

// The journal on that disk.
class SimulatedStore final : public Store {
 public:
  SimulatedStore(World& world, JobLaws& laws, SimulatedDisk& disk) : world_(world), laws_(laws), disk_(disk) {}

  absl::Status Lock() override { return absl::OkStatus(); }
  absl::Status Append(const v1::JournalEntry& entry, SyncMode sync) override;
  absl::Status ReadAll(const std::function<absl::Status(const v1::JournalEntry&)>& visit) const override;
  absl::Status Snapshot(const std::vector<v1::JournalEntry>& entries, uint64_t up_to_sequence) override;

 private:
  World& world_;
  JobLaws& laws_;
  SimulatedDisk& disk_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SIMULATED_JOURNAL_H_
