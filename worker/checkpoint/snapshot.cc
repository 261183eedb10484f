#include "worker/checkpoint/snapshot.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/time.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// A device that has not copied its state by then is lost.
constexpr absl::Duration kDeviceTimeout = absl::Minutes(10);

}  // namespace

absl::StatusOr<std::unique_ptr<Snapshot>> Snapshot::Create(Device& device, std::span<StageState* const> states) {
  STAGECOACH_ASSIGN_OR_RETURN(const auto owned, CollectOwned(states));
  auto snapshot = absl::WrapUnique(new Snapshot(device, states));
  size_t bytes = 0;
  for (const auto& [name, entry] : owned) bytes += entry.tensor->tensor.bytes();
  STAGECOACH_ASSIGN_OR_RETURN(snapshot->memory_, device.Allocate(bytes, MemoryKind::kPinnedHost));
  const std::byte* next = snapshot->memory_->data();
  for (const auto& [name, entry] : owned) {
    snapshot->owned_.push_back(entry.tensor);
    ShardTensor& tensor = snapshot->tensors_.emplace_back(Describe(*entry.tensor));
    tensor.bytes = {next, entry.tensor->tensor.bytes()};
    next += tensor.bytes.size();
  }
  return snapshot;
}

absl::Status Snapshot::Take(Stream& stream, std::map<std::string, TensorDigest> digests) {
  step_ = Step(0);
  if (states_.empty()) return absl::FailedPreconditionError("no state is held");
  const Step step = states_.front()->applied_step();
  STAGECOACH_RETURN_IF_ERROR(CheckAllAt(states_, step));
  std::byte* next = memory_->data();
  for (const StateTensor* owned : owned_) {
    STAGECOACH_RETURN_IF_ERROR(device_.EnqueueCopy(stream, next, owned->tensor.data, owned->tensor.bytes()));
    next += owned->tensor.bytes();
  }
  STAGECOACH_ASSIGN_OR_RETURN(const EventRef copied, device_.Record(stream));
  STAGECOACH_RETURN_IF_ERROR(device_.WaitComplete(copied, kDeviceTimeout));
  digests_ = std::move(digests);
  step_ = step;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TensorDigest>> Snapshot::DeviceDigest(size_t tensor) {
  const auto found = digests_.find(tensors_[tensor].name);
  return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace stagecoach
