#include "worker/checkpoint/shard_writer.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "formats/checkpoint_manifest.h"
#include "formats/safetensors.h"
#include "formats/tensor_digest.h"

namespace stagecoach {
namespace {

constexpr char kShardFormat[] = "stagecoach-shard-1";
// Of work that was enqueued before the checkpoint was ordered: a device that needs longer is lost.
constexpr absl::Duration kDeviceTimeout = absl::Minutes(10);

struct OwnedTensor {
  StageState* state;
  const StateTensor* tensor;
};
using OwnedTensors = std::map<std::string, OwnedTensor>;

absl::Status CheckOrder(const DeviceCapabilities& device, std::span<StageState* const> states,
                        const v1::WriteCheckpoint& order) {
  if (!IsPlainFileName(order.file())) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", Quoted(order.file()), ": not a plain file name"));
  }
  if (!device.host_addressable) {
    return absl::FailedPreconditionError(
        absl::StrCat("the memory of device ", device.kind, " cannot be read by the host: no checkpoint from it"));
  }
  for (const StageState* state : states) {
    if (state->applied_step().value() == order.step()) continue;
    return absl::FailedPreconditionError(absl::StrCat("asked for a checkpoint of step ", order.step(),
                                                      ", the stage is at step ", state->applied_step().value()));
  }
  return absl::OkStatus();
}

absl::StatusOr<OwnedTensors> CollectOwned(std::span<StageState* const> states) {
  OwnedTensors owned;
  for (StageState* state : states) {
    for (const StateTensor& tensor : state->tensors()) {
      if (!tensor.owned) continue;
      if (!owned.emplace(tensor.name, OwnedTensor{state, &tensor}).second) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), ": two stages own it"));
      }
    }
  }
  return owned;
}

std::vector<uint64_t> ShapeOf(const Tensor& tensor) {
  return std::vector<uint64_t>(tensor.dims.begin(), tensor.dims.begin() + tensor.rank);
}

absl::StatusOr<std::vector<SafetensorsWriter::Declaration>> Declare(const OwnedTensors& owned) {
  std::vector<SafetensorsWriter::Declaration> declarations;
  for (const auto& [name, entry] : owned) {
    const Tensor& tensor = entry.tensor->tensor;
    const std::optional<SafetensorsType> type = SafetensorsTypeOf(tensor.dtype);
    if (!type) return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), ": it has no dtype"));
    declarations.push_back({name, *type, ShapeOf(tensor)});
  }
  return declarations;
}

v1::TensorDigestReport Report(const StateTensor& tensor, const TensorDigest& digest) {
  v1::TensorDigestReport report;
  report.set_name(tensor.name);
  report.set_dtype(tensor.tensor.dtype);
  for (const uint64_t dim : ShapeOf(tensor.tensor)) report.add_shape(dim);
  report.set_low(digest.words[0]);
  report.set_high(digest.words[1]);
  report.set_optimizer_state(tensor.optimizer_state);
  return report;
}

absl::Status AppendTensor(Stream& stream, const OwnedTensor& owned, SafetensorsWriter& writer,
                          v1::ShardWritten& written) {
  const StateTensor& tensor = *owned.tensor;
  STAGECOACH_ASSIGN_OR_RETURN(const TensorDigest digest, owned.state->Digest(stream, tensor.tensor));
  const std::span bytes(tensor.tensor.as<const std::byte>(), tensor.tensor.bytes());
  STAGECOACH_RETURN_IF_ERROR(writer.Append(bytes));
  // Two ways to the same number: what goes to disk is what the device computes with.
  if (const TensorDigest of_bytes = DigestBytes(bytes); !(of_bytes == digest)) {
    return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor.name), ": the device computes digest ",
                                            digest.Hex(), ", the bytes written have ", of_bytes.Hex()));
  }
  *written.add_tensors() = Report(tensor, digest);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::ShardWritten> ShardWriter::Write(Stream& stream, std::span<StageState* const> states,
                                                    const v1::WriteCheckpoint& order,
                                                    const std::function<absl::Status()>& may_go_on) {
  STAGECOACH_RETURN_IF_ERROR(CheckOrder(device_.capabilities(), states, order));
  STAGECOACH_ASSIGN_OR_RETURN(const OwnedTensors owned, CollectOwned(states));
  STAGECOACH_ASSIGN_OR_RETURN(std::vector<SafetensorsWriter::Declaration> declarations, Declare(owned));
  STAGECOACH_ASSIGN_OR_RETURN(const EventRef event, device_.Record(stream));
  STAGECOACH_RETURN_IF_ERROR(device_.WaitComplete(event, kDeviceTimeout));

  const SafetensorsMetadata metadata = {{"format", kShardFormat},
                                        {"job", identity_.job.value()},
                                        {"epoch", absl::StrCat(identity_.epoch.value())},
                                        {"incarnation", absl::StrCat(identity_.incarnation.value())},
                                        {"step", absl::StrCat(order.step())}};
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                              SafetensorsWriter::Create(files_, absl::StrCat(order.directory(), "/", order.file()),
                                                        metadata, std::move(declarations)));
  v1::ShardWritten written;
  written.set_step(order.step());
  written.set_file(order.file());
  for (const SafetensorsTensor& tensor : writer->tensors()) {
    STAGECOACH_RETURN_IF_ERROR(may_go_on());
    STAGECOACH_RETURN_IF_ERROR(AppendTensor(stream, owned.at(tensor.name), *writer, written));
  }
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  STAGECOACH_ASSIGN_OR_RETURN(const SafetensorsWriter::Written file, writer->Commit());
  written.set_bytes(file.bytes);
  written.set_digest(file.digest);
  return written;
}

}  // namespace stagecoach
