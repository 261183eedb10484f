#ifndef STAGECOACH_CLIENT_COMMANDS_TESTING_COMMAND_LINE_TEST_H_
#define STAGECOACH_CLIENT_COMMANDS_TESTING_COMMAND_LINE_TEST_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/coordinator_client/testing/fake_coordinator_service.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {

// Runs verbs in this process against a fake coordinator, with an environment of their own: STAGECOACH_ADDRESS is the
// fake's, the context file does not exist.
class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest();
  ~CommandLineTest() override;

  struct Result {
    int code = 0;
    std::string out;
    std::string err;
  };
  static Result Run(const std::vector<std::string>& arguments);
  // With `text` on standard input.
  static Result RunWith(const std::string& text, const std::vector<std::string>& arguments);

  void SetVariable(const char* name, const std::string& value);  // until the end of the test
  void UnsetVariable(const char* name);

  v1::Job PutJob(const std::string& name, v1::JobState state, uint64_t step = 0);
  void AddStatus(const std::string& job, v1::JobState state, const std::string& reason = "");
  void AddStep(const std::string& job, uint64_t step, bool validation_follows = false);
  void AddValidation(const std::string& job, uint64_t step, double loss);

  // A specification that is valid.
  std::string SpecText(const std::string& name = "gpt") const;
  std::string SpecFile(const std::string& name = "gpt") const;

  const TemporaryDirectory directory_;
  FakeCoordinatorService service_;

 private:
  std::vector<std::string> variables_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_TESTING_COMMAND_LINE_TEST_H_
