#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "formats/safetensors.h"
#include "tests/testing/memory_file.h"

// Any bytes are refused with DATA_LOSS, or they are a file whose tensors tile it and can be read, and whose canonical
// form reads back to the same tensors.
namespace stagecoach {
namespace {

SafetensorsReader MustRead(std::string bytes) {
  absl::StatusOr<SafetensorsReader> reader =
      SafetensorsReader::Create(std::make_unique<MemoryFile>(std::move(bytes)), "input");
  STAGECOACH_CHECK(reader.ok());
  return *std::move(reader);
}

void CheckReads(const SafetensorsReader& reader) {
  uint64_t covered = reader.data_begin();
  std::vector<std::byte> bytes;
  for (const SafetensorsTensor& tensor : reader.tensors()) {
    STAGECOACH_CHECK(tensor.begin == covered && tensor.end >= tensor.begin);
    covered = tensor.end;
    bytes.resize(tensor.bytes());
    STAGECOACH_CHECK(reader.Read(tensor, 0, bytes).ok());
    STAGECOACH_CHECK(reader.Find(tensor.name)->name == tensor.name);
  }
  STAGECOACH_CHECK(covered == reader.file_bytes());
}

void CheckCanonicalForm(const SafetensorsReader& reader) {
  std::vector<SafetensorsTensor> tensors(reader.tensors().begin(), reader.tensors().end());
  const absl::StatusOr<std::string> header = LayOutSafetensors(reader.metadata(), tensors);
  STAGECOACH_CHECK(header.ok());
  const uint64_t data_bytes = reader.file_bytes() - reader.data_begin();
  const SafetensorsReader again = MustRead(*header + std::string(data_bytes, '\0'));
  STAGECOACH_CHECK(again.metadata() == reader.metadata());
  STAGECOACH_CHECK(again.tensors().size() == reader.tensors().size());
  for (const SafetensorsTensor& tensor : again.tensors()) {
    const SafetensorsTensor* original = reader.Find(tensor.name);
    STAGECOACH_CHECK(original != nullptr && original->type == tensor.type && original->shape == tensor.shape);
  }
}

}  // namespace
}  // namespace stagecoach

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using stagecoach::SafetensorsReader;
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Create(
      std::make_unique<stagecoach::MemoryFile>(std::string(reinterpret_cast<const char*>(data), size)), "input");
  if (!reader.ok()) {
    STAGECOACH_CHECK(absl::IsDataLoss(reader.status()));
    return 0;
  }
  stagecoach::CheckReads(*reader);
  stagecoach::CheckCanonicalForm(*reader);
  return 0;
}
