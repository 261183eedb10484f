#include "coordinator/spec/spec_test_cases.h"

#include <gtest/gtest.h>

namespace stagecoach {

std::string GoodSpecWith(const std::string& from, const std::string& to) {
  std::string text = kGoodSpec;
  const size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  return found == std::string::npos ? text : text.replace(found, from.size(), to);
}

std::vector<SpecError> ErrorsOf(const std::string& text, const std::vector<SpecOverride>& overrides) {
  std::vector<SpecError> errors;
  const bool ok = ParseJobSpec(text, overrides, errors).ok();
  EXPECT_EQ(ok, errors.empty());
  return errors;
}

std::vector<std::string> ErrorLinesOf(const std::string& text, const std::vector<SpecOverride>& overrides) {
  std::vector<std::string> lines;
  for (const SpecError& error : ErrorsOf(text, overrides)) lines.push_back(FormatSpecError("f", error));
  return lines;
}

}  // namespace stagecoach
