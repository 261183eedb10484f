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

namespace stagecoach {
namespace {

constexpr char kShardFormat[] = "stagecoach-shard-1";
// Read three times, by two digests and the write: small enough to stay in a cache. A multiple of the digest's words.
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

// The digest of the bytes that were written.
absl::StatusOr<TensorDigest> AppendTensor(const ShardTensor& tensor, SafetensorsWriter& writer,
                                          const std::function<absl::Status()>& may_go_on) {
  TensorDigest digest;
  for (size_t at = 0; at < tensor.bytes.size();) {
    STAGECOACH_RETURN_IF_ERROR(may_go_on());
    const auto piece = tensor.bytes.subspan(at, std::min(kPieceBytes, tensor.bytes.size() - at));
    digest = digest + DigestBytes(piece, at / 4);
    STAGECOACH_RETURN_IF_ERROR(writer.Append(piece));
    at += piece.size();
  }
  return digest;
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
  v1::ShardWritten written;
  written.set_step(order.step());
  written.set_file(order.file());
  for (const SafetensorsTensor& declared : writer->tensors()) {
    const size_t index = IndexOf(source.tensors(), declared.name);
    const ShardTensor& tensor = source.tensors()[index];
    STAGECOACH_ASSIGN_OR_RETURN(const TensorDigest digest, AppendTensor(tensor, *writer, may_go_on));
    STAGECOACH_ASSIGN_OR_RETURN(const std::optional<TensorDigest> of_device, source.DeviceDigest(index));
    STAGECOACH_RETURN_IF_ERROR(Compare(tensor, digest, of_device));
    *written.add_tensors() = Report(tensor, digest);
  }
  STAGECOACH_RETURN_IF_ERROR(writer->Sync());
  // The disk may have taken longer than the right to write lasts.
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  STAGECOACH_ASSIGN_OR_RETURN(const SafetensorsWriter::Written file, writer->Commit());
  written.set_bytes(file.bytes);
  written.set_digest(file.digest);
  return written;
}

}  // namespace stagecoach
