#ifndef STAGECOACH_COORDINATOR_SPEC_SPEC_TEST_CASES_H_
#define STAGECOACH_COORDINATOR_SPEC_SPEC_TEST_CASES_H_

#include <string>
#include <vector>

#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {

// A correct specification for tests to change; line numbers in tests refer to it.
inline constexpr char kGoodSpec[] =
    R"(version: 1
name: good
model:
  architecture: gpt2
  config:
    num_hidden_layers: 12
    hidden_size: 768
    num_attention_heads: 12
    vocab_size: 50257
    max_position_embeddings: 1024
data:
  train: [{path: /data/a.txt}]
training:
  seq_len: 512
  global_batch_size: 480
  micro_batch_size: 4
  steps: 20
optimizer: {name: adamw, lr: 6e-4}
checkpoint: {dir: /ckpt}
)";

// kGoodSpec with the first occurrence of `from` replaced; `from` must be there.
std::string GoodSpecWith(const std::string& from, const std::string& to);

// The errors of a specification, none when it is right.
std::vector<SpecError> ErrorsOf(const std::string& text, const std::vector<SpecOverride>& overrides = {});
// The same, one per line, formatted, for the file "f".
std::vector<std::string> ErrorLinesOf(const std::string& text, const std::vector<SpecOverride>& overrides = {});

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_SPEC_TEST_CASES_H_
