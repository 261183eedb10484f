#include "formats/text_corpus.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/philox.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr uint64_t kHoldOutStream = 0x686f6c646f757431;  // keeps this use of the data seed apart from the sample order

// Whatever the file system said: the user's data is what has to change. `key` is data.train[0].path.
absl::Status BadData(const std::string& key, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", message));
}

absl::StatusOr<CorpusFile> OpenCorpusFile(const std::string& key, const std::string& path, uint64_t seq_len,
                                          FileSystem& files) {
  const absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = files.Open(path);
  if (!file.ok()) return BadData(key, file.status().message());
  const uint64_t bytes = (*file)->size();
  if (bytes == 0) return BadData(key, absl::StrCat(path, " is empty; remove it or narrow the pattern"));
  // A file may have a size and still refuse to be read.
  char first;
  if (const absl::Status status = (*file)->Read(0, 1, &first); !status.ok()) return BadData(key, status.message());
  return CorpusFile{path, bytes, (bytes - 1) / seq_len};
}

absl::StatusOr<std::vector<CorpusFile>> OpenSources(const google::protobuf::RepeatedPtrField<v1::DataSource>& sources,
                                                    absl::string_view list, uint64_t seq_len, FileSystem& files) {
  std::vector<CorpusFile> corpus;
  std::set<std::string> seen;
  for (int i = 0; i < sources.size(); ++i) {
    const std::string key = absl::StrCat("data.", list, "[", i, "].path");
    const absl::StatusOr<std::vector<std::string>> paths = files.Glob(sources[i].path());
    if (!paths.ok()) return BadData(key, paths.status().message());
    for (const std::string& path : *paths) {
      const absl::StatusOr<std::string> resolved = files.Resolve(path);
      if (!resolved.ok()) return BadData(key, resolved.status().message());
      if (!seen.insert(*resolved).second) continue;
      STAGECOACH_ASSIGN_OR_RETURN(CorpusFile file, OpenCorpusFile(key, *resolved, seq_len, files));
      corpus.push_back(std::move(file));
    }
  }
  return corpus;
}

uint64_t CountSamples(const std::vector<CorpusFile>& corpus) {
  uint64_t samples = 0;
  for (const CorpusFile& file : corpus) samples += file.num_samples;
  return samples;
}

absl::Status CheckHasSamples(const std::vector<CorpusFile>& corpus, absl::string_view key, uint64_t seq_len) {
  if (CountSamples(corpus) > 0) return absl::OkStatus();
  uint64_t longest = 0;
  for (const CorpusFile& file : corpus) longest = std::max(longest, file.bytes);
  return absl::InvalidArgumentError(absl::StrCat(key, ": the text is shorter than one sample: its longest file has ",
                                                 longest, " bytes, training.seq_len ", seq_len, " needs ",
                                                 seq_len + 1));
}

// Which files of `corpus` are held out; see OpenTextCorpus. Files without a sample stay where they are.
absl::StatusOr<std::vector<bool>> ChooseHeldOut(const std::vector<CorpusFile>& corpus, double fraction, uint64_t seed) {
  std::vector<std::pair<uint64_t, size_t>> order;
  uint64_t total = 0;
  for (size_t i = 0; i < corpus.size(); ++i) {
    if (corpus[i].num_samples == 0) continue;
    order.emplace_back(MixSeed(MixSeed(seed, kHoldOutStream), i), i);
    total += corpus[i].bytes;
  }
  if (order.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("data.validation_fraction: ", fraction,
                                                   " holds out whole files, and data.train has ", order.size(),
                                                   " of at least one sample; give data.validation, or 0"));
  }
  std::sort(order.begin(), order.end());
  const double target = fraction * static_cast<double>(total);
  const auto distance = [target](uint64_t bytes) { return std::abs(static_cast<double>(bytes) - target); };
  std::vector<bool> held(corpus.size(), false);
  uint64_t held_bytes = 0;
  size_t num_held = 0, smallest = order.front().second;
  for (const auto& [key, i] : order) {
    if (corpus[i].bytes < corpus[smallest].bytes) smallest = i;
    const bool nearer = distance(held_bytes + corpus[i].bytes) < distance(held_bytes);
    if (!nearer || num_held + 1 == order.size()) continue;
    held[i] = true;
    held_bytes += corpus[i].bytes;
    ++num_held;
  }
  if (num_held == 0) held[smallest] = true;
  return held;
}

// Moves the files of train that `held` marks to validation.
void HoldOut(const std::vector<bool>& held, TextCorpus& corpus) {
  std::vector<CorpusFile> all = std::move(corpus.train);
  corpus.train.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    (held[i] ? corpus.validation : corpus.train).push_back(std::move(all[i]));
  }
}

absl::Status RemoveValidationFromTrain(TextCorpus& corpus) {
  std::set<std::string> held;
  for (const CorpusFile& file : corpus.validation) held.insert(file.path);
  std::erase_if(corpus.train, [&held](const CorpusFile& file) { return held.count(file.path) != 0; });
  if (!corpus.train.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("data.train: nothing is left to train on: data.validation has all of its files");
}

}  // namespace

absl::StatusOr<TextCorpus> OpenTextCorpus(const v1::DataSpec& data, uint64_t seq_len, FileSystem& files) {
  if (seq_len == 0) return absl::InvalidArgumentError("training.seq_len: must be positive");
  TextCorpus corpus;
  STAGECOACH_ASSIGN_OR_RETURN(corpus.train, OpenSources(data.train(), "train", seq_len, files));
  STAGECOACH_ASSIGN_OR_RETURN(corpus.validation, OpenSources(data.validation(), "validation", seq_len, files));
  STAGECOACH_RETURN_IF_ERROR(CheckHasSamples(corpus.train, "data.train", seq_len));
  if (!corpus.validation.empty()) {
    STAGECOACH_RETURN_IF_ERROR(CheckHasSamples(corpus.validation, "data.validation", seq_len));
    STAGECOACH_RETURN_IF_ERROR(RemoveValidationFromTrain(corpus));
    STAGECOACH_RETURN_IF_ERROR(CheckHasSamples(corpus.train, "data.train, without data.validation", seq_len));
  } else if (data.validation_fraction() > 0) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::vector<bool> held,
                                ChooseHeldOut(corpus.train, data.validation_fraction(), data.seed()));
    HoldOut(held, corpus);
  }
  corpus.num_train_samples = CountSamples(corpus.train);
  corpus.num_validation_samples = CountSamples(corpus.validation);
  return corpus;
}

StepSamples SamplesOfStep(uint64_t step, uint64_t num_samples_per_pass, uint64_t global_batch_size) {
  STAGECOACH_CHECK(step > 0 && num_samples_per_pass > 0 && global_batch_size > 0);
  const uint64_t steps_per_pass = (num_samples_per_pass - 1) / global_batch_size + 1;
  const uint64_t pass = (step - 1) / steps_per_pass;
  const uint64_t done = (step - 1) % steps_per_pass * global_batch_size;
  return {pass * num_samples_per_pass + done, std::min(global_batch_size, num_samples_per_pass - done)};
}

}  // namespace stagecoach
