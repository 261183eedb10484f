#include "tests/simulation/simulated_journal.h"

#include "common/status_macros.h"

namespace stagecoach::simulation {
namespace {

constexpr double kLossOfPlantedBug = 0.05;

}  // namespace

absl::Status SimulatedStore::Append(const v1::JournalEntry& entry, SyncMode sync) {
  if (disk_.is_full) return absl::ResourceExhaustedError("the disk is full");
  laws_.OnAppended(entry);
  const bool lost = world_.bug == PlantedBug::kLoseCommitRecord && entry.has_step_committed() &&
                    world_.random.Chance(kLossOfPlantedBug);
  if (!lost) disk_.entries.push_back(entry);
  if (sync == SyncMode::kSynced) disk_.num_synced = disk_.entries.size();
  return absl::OkStatus();
}

absl::Status SimulatedStore::Snapshot(const std::vector<v1::JournalEntry>& entries, uint64_t up_to_sequence) {
  if (disk_.is_full) return absl::ResourceExhaustedError("the disk is full");
  std::vector<v1::JournalEntry> stored = entries;
  for (v1::JournalEntry& entry : disk_.entries) {
    if (entry.sequence() > up_to_sequence) stored.push_back(std::move(entry));
  }
  disk_.entries = std::move(stored);
  disk_.num_synced = disk_.entries.size();
  laws_.OnCompacted();
  return absl::OkStatus();
}

absl::Status SimulatedStore::ReadAll(const std::function<absl::Status(const v1::JournalEntry&)>& visit) const {
  for (const v1::JournalEntry& entry : disk_.entries) STAGECOACH_RETURN_IF_ERROR(visit(entry));
  return absl::OkStatus();
}

}  // namespace stagecoach::simulation
