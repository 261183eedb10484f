#include "tests/testing/fault_file_system.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {

class FaultFileSystem::FaultyReader final : public RandomAccessFile {
 public:
  FaultyReader(FaultFileSystem& files, std::string path, std::unique_ptr<RandomAccessFile> base)
      : files_(files), path_(std::move(path)), base_(std::move(base)) {}
  uint64_t size() const override { return base_->size(); }
  absl::StatusOr<uint64_t> CurrentSize() const override { return base_->CurrentSize(); }
  absl::Status Read(uint64_t offset, uint64_t bytes, void* to) const override {
    if (files_.on_read) files_.on_read();
    STAGECOACH_RETURN_IF_ERROR(files_.Check(FileOperation::kRead, path_));
    return base_->Read(offset, bytes, to);
  }

 private:
  FaultFileSystem& files_;
  const std::string path_;
  const std::unique_ptr<RandomAccessFile> base_;
};

class FaultFileSystem::FaultyWriter final : public AtomicFile {
 public:
  FaultyWriter(FaultFileSystem& files, std::string path, std::unique_ptr<AtomicFile> base)
      : files_(files), path_(std::move(path)), base_(std::move(base)) {}
  absl::Status Reserve(uint64_t bytes) override {
    STAGECOACH_RETURN_IF_ERROR(files_.Check(FileOperation::kReserve, path_));
    if (files_.Fits(bytes)) return base_->Reserve(bytes);
    return absl::ResourceExhaustedError(absl::StrCat("reserve space for ", path_, ": No space left on device"));
  }
  absl::Status Append(const void* data, uint64_t bytes) override {
    STAGECOACH_RETURN_IF_ERROR(files_.Check(FileOperation::kAppend, path_));
    const uint64_t fit = files_.TakeFreeBytes(bytes);
    STAGECOACH_RETURN_IF_ERROR(base_->Append(data, fit));
    if (fit == bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("write ", path_, ": No space left on device"));
  }
  absl::Status Sync() override {
    STAGECOACH_RETURN_IF_ERROR(files_.Check(FileOperation::kSync, path_));
    STAGECOACH_RETURN_IF_ERROR(base_->Sync());
    if (files_.on_sync) files_.on_sync();
    return absl::OkStatus();
  }
  absl::Status Commit() override {
    STAGECOACH_RETURN_IF_ERROR(files_.Check(FileOperation::kCommit, path_));
    STAGECOACH_RETURN_IF_ERROR(base_->Commit());
    files_.Record("commit ", path_);
    return absl::OkStatus();
  }

 private:
  FaultFileSystem& files_;
  const std::string path_;
  const std::unique_ptr<AtomicFile> base_;
};

void FaultFileSystem::Add(FileFault fault) {
  MutexLock lock(mutex_);
  faults_.push_back({std::move(fault)});
}

void FaultFileSystem::LimitFreeBytes(uint64_t bytes) {
  MutexLock lock(mutex_);
  free_bytes_ = bytes;
}

std::vector<std::string> FaultFileSystem::changes() const {
  MutexLock lock(mutex_);
  return changes_;
}

absl::Status FaultFileSystem::Check(FileOperation operation, const std::string& path) {
  MutexLock lock(mutex_);
  for (Armed& armed : faults_) {
    if (armed.fault.operation != operation || !absl::StrContains(path, armed.fault.path_part)) continue;
    if (armed.calls++ >= armed.fault.after) return WithContext(armed.fault.status, path);
  }
  return absl::OkStatus();
}

uint64_t FaultFileSystem::TakeFreeBytes(uint64_t bytes) {
  MutexLock lock(mutex_);
  const uint64_t fit = std::min(bytes, free_bytes_);
  free_bytes_ -= fit;
  return fit;
}

bool FaultFileSystem::Fits(uint64_t bytes) const {
  MutexLock lock(mutex_);
  return bytes <= free_bytes_;
}

void FaultFileSystem::Record(const char* what, const std::string& path) {
  MutexLock lock(mutex_);
  changes_.push_back(absl::StrCat(what, path));
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> FaultFileSystem::Open(const std::string& path) {
  STAGECOACH_RETURN_IF_ERROR(Check(FileOperation::kOpen, path));
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, base_.Open(path));
  return std::make_unique<FaultyReader>(*this, path, std::move(file));
}

absl::StatusOr<std::unique_ptr<AtomicFile>> FaultFileSystem::Create(const std::string& path) {
  STAGECOACH_RETURN_IF_ERROR(Check(FileOperation::kCreate, path));
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, base_.Create(path));
  return std::make_unique<FaultyWriter>(*this, path, std::move(file));
}

absl::Status FaultFileSystem::CreateDirectories(const std::string& path) {
  STAGECOACH_RETURN_IF_ERROR(Check(FileOperation::kCreateDirectories, path));
  return base_.CreateDirectories(path);
}

absl::StatusOr<std::vector<std::string>> FaultFileSystem::List(const std::string& directory) {
  STAGECOACH_RETURN_IF_ERROR(Check(FileOperation::kList, directory));
  return base_.List(directory);
}

absl::StatusOr<std::vector<std::string>> FaultFileSystem::Glob(const std::string& pattern) {
  STAGECOACH_RETURN_IF_ERROR(Check(FileOperation::kGlob, pattern));
  return base_.Glob(pattern);
}

absl::StatusOr<std::string> FaultFileSystem::Resolve(const std::string& path) {
  STAGECOACH_RETURN_IF_ERROR(Check(FileOperation::kResolve, path));
  return base_.Resolve(path);
}

absl::Status FaultFileSystem::RemoveTree(const std::string& path) {
  STAGECOACH_RETURN_IF_ERROR(Check(FileOperation::kRemove, path));
  STAGECOACH_RETURN_IF_ERROR(base_.RemoveTree(path));
  Record("remove ", path);
  return absl::OkStatus();
}

absl::Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  STAGECOACH_RETURN_IF_ERROR(Check(FileOperation::kRename, from));
  STAGECOACH_RETURN_IF_ERROR(base_.Rename(from, to));
  Record("rename ", from);
  return absl::OkStatus();
}

}  // namespace stagecoach
