#ifndef STAGECOACH_FORMATS_TEXT_CORPUS_H_
#define STAGECOACH_FORMATS_TEXT_CORPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// What the data of a job is, from names and sizes of files alone: coordinator and workers both compute it, so that the
// number of samples, hence every micro-batch and loss weight, needs no message. Files are taken in the order of
// data.train, glob matches sorted bytewise, links resolved and the same file taken once. A file of n bytes holds
// floor((n - 1) / seq_len) samples: sample k has tokens [k seq_len, (k + 1) seq_len) and as labels the tokens one
// further on; a sample never spans two files.
struct CorpusFile {
  std::string path;  // resolved
  uint64_t bytes = 0;
  uint64_t num_samples = 0;
};
struct TextCorpus {
  std::vector<CorpusFile> train;
  std::vector<CorpusFile> validation;
  uint64_t num_train_samples = 0;
  uint64_t num_validation_samples = 0;
};

// A file of data.validation is never trained on, also when data.train matches it. With data.validation empty and
// validation_fraction > 0, whole files are held out: of the files with at least one sample, in an order given by the
// data seed, each one that brings the held-out bytes nearer to the fraction; the smallest if none does; never all.
// INVALID_ARGUMENT (names the key and path): no file matches, unreadable, an empty file, all too short for one sample,
// nothing left to train on, a fraction of fewer than two files.
absl::StatusOr<TextCorpus> OpenTextCorpus(const v1::DataSpec& data, uint64_t seq_len, FileSystem& files);

// Which samples a step reads. A data pass takes every sample once; its last step takes what is left. Global sample
// indices go on over passes: pass = index / num_samples.
struct StepSamples {
  uint64_t first_sample = 0;  // global sample index
  uint64_t num_samples = 0;   // at most the global batch size, at least 1
};
StepSamples SamplesOfStep(uint64_t step /* 1-based */, uint64_t num_samples_per_pass, uint64_t global_batch_size);

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_TEXT_CORPUS_H_
