#include "worker/checkpoint/shard_writer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "formats/checkpoint_manifest.h"
#include "formats/safetensors.h"
#include "formats/tensor_digest.h"
#include "worker/checkpoint/shard_digester.h"

namespace stagecoach {
namespace {

constexpr char kShardFormat[] = "stagecoach-shard-1";
constexpr size_t kPieceBytes = size_t{1} << 20;

absl::Status CheckOrder(const ShardSource& source, const v1::WriteCheckpoint& order) {
  if (!IsPlainFileName(order.file())) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", Quoted(order.file()), ": not a plain file name"));
  }
  if (source.step().value() == order.step()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("asked for a checkpoint of step ", order.step(),
                                                    ", what is here is of step ", source.step().value()));
}

absl::StatusOr<std::vector<SafetensorsWriter::Declaration>> Declare(const ShardSource& source) {
  std::vector<SafetensorsWriter::Declaration> declarations;
  for (const ShardTensor& tensor : source.tensors()) {
    const std::optional<SafetensorsType> type = SafetensorsTypeOf(tensor.dtype);
    if (!type) return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), ": it has no dtype"));
    declarations.push_back({tensor.name, *type, tensor.shape});
  }
  return declarations;
}

size_t IndexOf(std::span<const ShardTensor> tensors, const std::string& name) {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                      [](const ShardTensor& a, const std::string& wanted) { return a.name < wanted; });
  return static_cast<size_t>(found - tensors.begin());
}

// Positions in source.tensors(), as their bytes come in the file.
std::vector<size_t> OrderOfFile(const SafetensorsWriter& writer, const ShardSource& source) {
  std::vector<size_t> order;
  for (const SafetensorsTensor& declared : writer.tensors()) order.push_back(IndexOf(source.tensors(), declared.name));
  return order;
}

std::vector<std::span<const std::byte>> BytesInOrder(const ShardSource& source, const std::vector<size_t>& order) {
  std::vector<std::span<const std::byte>> bytes;
  for (const size_t index : order) bytes.push_back(source.tensors()[index].bytes);
  return bytes;
}

v1::TensorDigestReport Report(const ShardTensor& tensor, const TensorDigest& digest) {
  v1::TensorDigestReport report;
  report.set_name(tensor.name);
  report.set_dtype(tensor.dtype);
  report.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  report.set_low(digest.words[0]);
  report.set_high(digest.words[1]);
  report.set_optimizer_state(tensor.optimizer_state);
  return report;
}

absl::Status AppendTensor(const ShardTensor& tensor, SafetensorsWriter& writer,
                          const std::function<absl::Status()>& may_go_on) {
  for (size_t at = 0; at < tensor.bytes.size();) {
    STAGECOACH_RETURN_IF_ERROR(may_go_on());
    const auto piece = tensor.bytes.subspan(at, std::min(kPieceBytes, tensor.bytes.size() - at));
    STAGECOACH_RETURN_IF_ERROR(writer.Append(piece));
    at += piece.size();
  }
  return absl::OkStatus();
}

// Two ways to the same number: what goes to disk is what the device computes with.
absl::Status Compare(const ShardTensor& tensor, const TensorDigest& written,
                     const std::optional<TensorDigest>& of_device) {
  if (!of_device || *of_device == written) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor.name), ": the device computes digest ",
                                          of_device->Hex(), ", the bytes written have ", written.Hex()));
}

}  // namespace

absl::StatusOr<v1::ShardWritten> ShardWriter::Write(ShardSource& source, const v1::WriteCheckpoint& order,
                                                    const std::function<absl::Status()>& may_go_on) {
  STAGECOACH_RETURN_IF_ERROR(CheckOrder(source, order));
  STAGECOACH_ASSIGN_OR_RETURN(std::vector<SafetensorsWriter::Declaration> declarations, Declare(source));
  const SafetensorsMetadata metadata = {{"format", kShardFormat},
                                        {"job", identity_.job.value()},
                                        {"epoch", absl::StrCat(identity_.epoch.value())},
                                        {"incarnation", absl::StrCat(identity_.incarnation.value())},
                                        {"step", absl::StrCat(order.step())}};
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                              SafetensorsWriter::Create(files_, absl::StrCat(order.directory(), "/", order.file()),
                                                        metadata, std::move(declarations)));
  const std::vector<size_t> order_of_file = OrderOfFile(*writer, source);
  ShardDigester digester(writer->TakeDigest(), BytesInOrder(source, order_of_file));
  for (const size_t index : order_of_file) {
    STAGECOACH_RETURN_IF_ERROR(AppendTensor(source.tensors()[index], *writer, may_go_on));
  }
  STAGECOACH_RETURN_IF_ERROR(writer->Sync());
  const ShardDigester::Digests digests = digester.Finish();
  v1::ShardWritten written;
  written.set_step(order.step());
  written.set_file(order.file());
  for (size_t i = 0; i < order_of_file.size(); ++i) {
    const ShardTensor& tensor = source.tensors()[order_of_file[i]];
    STAGECOACH_ASSIGN_OR_RETURN(const std::optional<TensorDigest> of_device, source.DeviceDigest(order_of_file[i]));
    STAGECOACH_RETURN_IF_ERROR(Compare(tensor, digests.tensors[i], of_device));
    *written.add_tensors() = Report(tensor, digests.tensors[i]);
  }
  // The disk may have taken longer than the right to write lasts.
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  STAGECOACH_ASSIGN_OR_RETURN(const SafetensorsWriter::Written file, writer->Commit());
  written.set_bytes(file.bytes);
  written.set_digest(digests.file);
  return written;
}

}  // namespace stagecoach
