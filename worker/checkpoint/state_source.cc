#include "worker/checkpoint/state_source.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// Of work that was enqueued before the checkpoint was ordered: a device that needs longer is lost.
constexpr absl::Duration kDeviceTimeout = absl::Minutes(10);

}  // namespace

absl::StatusOr<std::unique_ptr<StateSource>> StateSource::Create(Device& device, Stream& stream,
                                                                 std::span<StageState* const> states, Step step) {
  if (!device.capabilities().host_addressable) {
    return absl::FailedPreconditionError(absl::StrCat("the memory of device ", device.capabilities().kind,
                                                      " cannot be read by the host: no checkpoint from it"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckAllAt(states, step));
  STAGECOACH_ASSIGN_OR_RETURN(const auto owned, CollectOwned(states));
  auto source = absl::WrapUnique(new StateSource(stream, step));
  for (const auto& [name, entry] : owned) {
    source->owned_.push_back(entry);
    ShardTensor& tensor = source->tensors_.emplace_back(Describe(*entry.tensor));
    tensor.bytes = {entry.tensor->tensor.as<const std::byte>(), entry.tensor->tensor.bytes()};
  }
  STAGECOACH_ASSIGN_OR_RETURN(const EventRef event, device.Record(stream));
  STAGECOACH_RETURN_IF_ERROR(device.WaitComplete(event, kDeviceTimeout));
  return source;
}

absl::StatusOr<std::optional<TensorDigest>> StateSource::DeviceDigest(size_t tensor) {
  const OwnedTensor& owned = owned_[tensor];
  STAGECOACH_ASSIGN_OR_RETURN(const TensorDigest digest, owned.state->Digest(stream_, owned.tensor->tensor));
  return std::optional(digest);
}

}  // namespace stagecoach
