#include "client/commands/testing/command_line_test.h"

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/commands/command_line.h"
#include "common/file_system.h"

namespace stagecoach {
namespace {

// Takes what goes through a stream while it lives.
class Redirected {
 public:
  Redirected(std::ios& stream, std::streambuf* buffer) : stream_(stream), before_(stream.rdbuf(buffer)) {}
  ~Redirected() { stream_.rdbuf(before_); }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  std::ios& stream_;
  std::streambuf* const before_;
};

}  // namespace

CommandLineTest::CommandLineTest() {
  for (const char* name : {"STAGECOACH_CONTEXT", "STAGECOACH_OUTPUT", "STAGECOACH_CA", "STAGECOACH_TOKEN_FILE"}) {
    UnsetVariable(name);
  }
  SetVariable("HOME", directory_.path());
  SetVariable("STAGECOACH_CONFIG", directory_.Path("config.yaml"));
  SetVariable("STAGECOACH_ADDRESS", service_.address());
}

CommandLineTest::~CommandLineTest() {
  for (const std::string& name : variables_) unsetenv(name.c_str());
}

void CommandLineTest::SetVariable(const char* name, const std::string& value) {
  variables_.push_back(name);
  setenv(name, value.c_str(), 1);
}

void CommandLineTest::UnsetVariable(const char* name) { unsetenv(name); }

CommandLineTest::Result CommandLineTest::RunWith(const std::string& text, const std::vector<std::string>& arguments) {
  std::istringstream in(text);
  std::ostringstream out, err;
  const Redirected in_guard(std::cin, in.rdbuf());
  const Redirected out_guard(std::cout, out.rdbuf());
  const Redirected err_guard(std::cerr, err.rdbuf());
  std::cin.clear();
  const int code = RunCommandLine(arguments);
  return {.code = code, .out = out.str(), .err = err.str()};
}

CommandLineTest::Result CommandLineTest::Run(const std::vector<std::string>& arguments) {
  return RunWith("", arguments);
}

v1::Job CommandLineTest::PutJob(const std::string& name, v1::JobState state, uint64_t step) {
  v1::Job job;
  job.mutable_status()->set_job(name);
  job.mutable_status()->set_state(state);
  job.mutable_status()->set_step(step);
  service_.PutJob(job);
  return job;
}

void CommandLineTest::AddStatus(const std::string& job, v1::JobState state, const std::string& reason) {
  v1::JobEvent event;
  event.mutable_status()->set_job(job);
  event.mutable_status()->set_state(state);
  event.mutable_status()->set_reason(reason);
  service_.AddEvent(job, event);
}

void CommandLineTest::AddStep(const std::string& job, uint64_t step, bool validation_follows) {
  v1::JobEvent event;
  event.mutable_step()->set_step(step);
  event.mutable_step()->set_loss(1.0 / static_cast<double>(step));
  event.mutable_step()->set_validation_follows(validation_follows);
  service_.AddEvent(job, event);
}

void CommandLineTest::AddValidation(const std::string& job, uint64_t step, double loss) {
  v1::JobEvent event;
  event.mutable_validation()->set_step(step);
  event.mutable_validation()->set_loss(loss);
  service_.AddEvent(job, event);
}

std::string CommandLineTest::SpecText(const std::string& name) const {
  return absl::StrCat("version: 1\nname: ", name, R"(
model:
  architecture: gpt2
  config: {num_hidden_layers: 4, hidden_size: 32, num_attention_heads: 2, vocab_size: 256, max_position_embeddings: 16}
data: {train: [{path: /data/text}]}
training: {seq_len: 16, global_batch_size: 8, micro_batch_size: 2, steps: 3}
optimizer: {name: adamw, lr: 1.0e-3}
checkpoint: {dir: /checkpoints}
)");
}

std::string CommandLineTest::SpecFile(const std::string& name) const {
  const std::string path = directory_.Path(name + ".yaml");
  EXPECT_TRUE(WriteFileAtomically(FileSystem::Posix(), path, SpecText(name)).ok());
  return path;
}

}  // namespace stagecoach
