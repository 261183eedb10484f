#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/quoted.h"
#include "common/status_macros.h"

namespace stagecoach {

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(FileSystem& files, const std::string& path) {
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, files.Open(path));
  return Create(std::move(file), path);
}

absl::StatusOr<SafetensorsReader> SafetensorsReader::Create(std::unique_ptr<RandomAccessFile> file,
                                                            const std::string& path) {
  SafetensorsReader reader(std::move(file), path);
  STAGECOACH_RETURN_IF_ERROR(reader.ReadHeader());
  return reader;
}

absl::Status SafetensorsReader::ReadHeader() {
  const uint64_t file_bytes = file_->size();
  if (file_bytes < kSafetensorsLengthBytes) {
    return absl::DataLossError(
        absl::StrCat(path_, ": not a safetensors file: it has ", file_bytes, " bytes, fewer than 8"));
  }
  std::array<uint8_t, kSafetensorsLengthBytes> prefix;
  STAGECOACH_RETURN_IF_ERROR(ReadRaw(0, std::as_writable_bytes(std::span(prefix))));
  uint64_t length = 0;
  for (size_t i = 0; i < prefix.size(); ++i) length |= uint64_t{prefix[i]} << (8 * i);
  if (length > kMaxSafetensorsHeaderBytes) {
    return absl::DataLossError(absl::StrCat(path_, ": not a safetensors file: a header of ", length, " bytes; at most ",
                                            kMaxSafetensorsHeaderBytes, " are allowed"));
  }
  if (length > file_bytes - kSafetensorsLengthBytes) {
    return absl::DataLossError(absl::StrCat(path_, ": truncated or not a safetensors file: a header of ", length,
                                            " bytes in a file of ", file_bytes));
  }
  std::string text(length, '\0');
  STAGECOACH_RETURN_IF_ERROR(ReadRaw(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(text))));
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(text, file_bytes);
  if (!header.ok()) return WithContext(header.status(), path_);
  header_ = *std::move(header);
  data_begin_ = kSafetensorsLengthBytes + length;
  by_name_.resize(header_.tensors.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [this](size_t a, size_t b) { return header_.tensors[a].name < header_.tensors[b].name; });
  return absl::OkStatus();
}

const SafetensorsTensor* SafetensorsReader::Find(absl::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](size_t position, absl::string_view wanted) { return header_.tensors[position].name < wanted; });
  if (found == by_name_.end() || header_.tensors[*found].name != name) return nullptr;
  return &header_.tensors[*found];
}

absl::Status SafetensorsReader::Read(const SafetensorsTensor& tensor, uint64_t offset, std::span<std::byte> to) const {
  if (offset > tensor.bytes() || to.size() > tensor.bytes() - offset) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", Quoted(tensor.name), " has ", tensor.bytes(),
                                                   " bytes; asked for ", to.size(), " at ", offset));
  }
  return WithContext(ReadRaw(tensor.begin + offset, to), absl::StrCat("tensor ", Quoted(tensor.name)));
}

absl::Status SafetensorsReader::ReadRaw(uint64_t offset, std::span<std::byte> to) const {
  absl::Status status = file_->Read(offset, to.size(), to.data());
  if (absl::IsOutOfRange(status)) status = absl::DataLossError(absl::StrCat(status.message(), "; it was truncated"));
  return status;
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(FileSystem& files, const std::string& path,
                                                                             const SafetensorsMetadata& metadata,
                                                                             std::vector<Declaration> declarations) {
  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(declarations.size());
  for (Declaration& declaration : declarations) {
    tensors.push_back({std::move(declaration.name), declaration.type, std::move(declaration.shape)});
  }
  absl::StatusOr<std::string> header = LayOutSafetensors(metadata, tensors);
  if (!header.ok()) return WithContext(header.status(), path);
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, files.Create(path));
  const uint64_t file_bytes = tensors.empty() ? header->size() : tensors.back().end;
  STAGECOACH_RETURN_IF_ERROR(file->Reserve(file_bytes));
  auto writer =
      std::unique_ptr<SafetensorsWriter>(new SafetensorsWriter(std::move(file), path, std::move(tensors), file_bytes));
  STAGECOACH_RETURN_IF_ERROR(writer->AppendHashed(header->data(), header->size()));
  return writer;
}

absl::Status SafetensorsWriter::AppendHashed(const void* data, uint64_t bytes) {
  STAGECOACH_RETURN_IF_ERROR(file_->Append(data, bytes));
  if (digest_) digest_->Add(data, bytes);
  written_ += bytes;
  return absl::OkStatus();
}

FileDigest SafetensorsWriter::TakeDigest() {
  STAGECOACH_CHECK(digest_.has_value());
  return *std::exchange(digest_, std::nullopt);
}

absl::Status SafetensorsWriter::Append(std::span<const std::byte> bytes) {
  if (bytes.size() > file_bytes_ - written_) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", bytes.size(), " more bytes, but only ",
                                                   file_bytes_ - written_, " of the declared tensors are missing"));
  }
  return AppendHashed(bytes.data(), bytes.size());
}

absl::Status SafetensorsWriter::CheckWhole() const {
  if (written_ == file_bytes_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path_, ": ", file_bytes_ - written_, " bytes of the declared tensors are missing"));
}

absl::Status SafetensorsWriter::Sync() {
  STAGECOACH_RETURN_IF_ERROR(CheckWhole());
  return file_->Sync();
}

absl::StatusOr<SafetensorsWriter::Written> SafetensorsWriter::Commit() {
  STAGECOACH_RETURN_IF_ERROR(CheckWhole());
  STAGECOACH_RETURN_IF_ERROR(file_->Commit());
  return Written{written_, digest_ ? digest_->Hex() : ""};
}

}  // namespace stagecoach
