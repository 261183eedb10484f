#include "tests/integration/small_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "common/philox.h"
#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

// 91 samples of 16 tokens: no multiple of the batch sizes in use, so that data passes end in short and empty
// micro-batches.
constexpr size_t kTextBytes = 91 * 16 + 1;
constexpr size_t kValidationBytes = 21 * 16 + 1;

constexpr char kSpec[] = R"(
version: 1
name: embedded
model:
  architecture: gpt2
  config: {num_hidden_layers: 4, hidden_size: 32, num_attention_heads: 2, vocab_size: 256, max_position_embeddings: 16}
data:
  train: [{path: DIRECTORY/text}]
  seed: 7
training: {seq_len: 16, global_batch_size: 8, micro_batch_size: 2, steps: 20, seed: 11}
optimizer: {name: adamw, lr: 3.0e-3}
lr_scheduler: {name: cosine, warmup_steps: 4}
checkpoint: {dir: DIRECTORY/checkpoints}
resources: {threads_per_worker: 1}
)";

// Words drawn from a small vocabulary: something that a model can learn.
std::string MakeText(size_t bytes) {
  constexpr const char* kWords[] = {"stage ", "coach ", "horses ", "pull ", "the ", "mail ", "over ", "hills\n"};
  std::string text;
  for (uint32_t i = 0; text.size() < bytes; ++i) text += kWords[Philox({i, 0, 0, 0}, {1, 2})[0] % 8];
  text.resize(bytes);
  return text;
}

}  // namespace

SmallJob::SmallJob() {
  static std::atomic<int> number = 0;
  directory_ = absl::StrCat(testing::TempDir(), "stagecoach_job_", getpid(), "_", number++);
  FileSystem& files = FileSystem::Posix();
  EXPECT_TRUE(files.CreateDirectories(directory_).ok());
  EXPECT_TRUE(WriteFileAtomically(files, directory_ + "/text", MakeText(kTextBytes)).ok());
  std::string text = kSpec;
  for (size_t at; (at = text.find("DIRECTORY")) != std::string::npos;) text.replace(at, 9, directory_);
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text, {}, errors);
  for (const SpecError& error : errors) ADD_FAILURE() << FormatSpecError("spec", error);
  if (spec.ok()) spec_ = *std::move(spec);
}

void SmallJob::AddValidation(uint64_t interval) {
  const std::string path = directory_ + "/validation";
  EXPECT_TRUE(WriteFileAtomically(FileSystem::Posix(), path, MakeText(kValidationBytes)).ok());
  v1::DataSource& source = *spec_.mutable_data()->add_validation();
  source = spec_.data().train(0);
  source.set_path(path);
  spec_.mutable_training()->set_validation_interval(interval);
}

SmallJob::~SmallJob() { EXPECT_TRUE(FileSystem::Posix().RemoveTree(directory_).ok()); }

}  // namespace stagecoach
