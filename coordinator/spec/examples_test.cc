#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/spec/job_spec_parser.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/model_graph.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> Examples() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(STAGECOACH_SOURCE_DIR "/examples")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  return paths;
}

v1::JobSpec ParseFile(const std::filesystem::path& path) {
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(ReadAll(path), {}, errors);
  for (const SpecError& error : errors) ADD_FAILURE() << FormatSpecError(path.string(), error);
  return spec.ok() ? *spec : v1::JobSpec();
}

TEST(ExamplesTest, EveryExampleParsesAndBuildsAGraph) {
  ASSERT_GE(Examples().size(), 2u);
  for (const auto& path : Examples()) {
    const absl::StatusOr<v1::ModelGraph> graph = BuildModelGraph(ParseFile(path));
    EXPECT_TRUE(graph.ok()) << path << ": " << graph.status();
  }
}

TEST(ExamplesTest, EveryExampleIsReadBackFromWhatIsPrinted) {
  for (const auto& path : Examples()) {
    const v1::JobSpec spec = ParseFile(path);
    std::vector<SpecError> errors;
    const absl::StatusOr<v1::JobSpec> again = ParseJobSpec(PrintJobSpec(spec), {}, errors);
    ASSERT_TRUE(again.ok()) << FormatSpecError(path.string(), errors.at(0)) << "\n" << PrintJobSpec(spec);
    EXPECT_TRUE(MessageDifferencer::Equals(spec, *again)) << PrintJobSpec(spec);
  }
}

TEST(ExamplesTest, TinyHasSixteenEqualBlocksAndAtLeastThreeMillionParameters) {
  const v1::ModelGraph graph = *BuildModelGraph(ParseFile(STAGECOACH_SOURCE_DIR "/examples/tiny.yaml"));
  EXPECT_EQ(graph.layers_size(), 16 + 3);
  uint64_t elements = 0;
  for (const v1::LayerSpec& layer : graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      uint64_t size = 1;
      for (const uint64_t extent : parameter.shape()) size *= extent;
      if (!parameter.has_tied_to_layer()) elements += size;
    }
  }
  EXPECT_GE(elements, 3'000'000u);
}

TEST(ExamplesTest, TinyReadsFilesThatAreThereAndAreNoLinks) {
  const v1::JobSpec spec = ParseFile(STAGECOACH_SOURCE_DIR "/examples/tiny.yaml");
  for (const v1::DataSource& source : spec.data().train()) {
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(source.path()))) << source.path();
  }
}

TEST(ExamplesTest, DocumentationNamesEveryKey) {
  const std::string text = ReadAll(STAGECOACH_SOURCE_DIR "/docs/job_spec.md");
  for (const SchemaField& field : JobSpecFields()) {
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat("`", field.path, "`"))) << field.path;
    for (const absl::string_view words : {field.choices, field.later}) {
      for (const absl::string_view word : absl::StrSplit(words, '|', absl::SkipEmpty())) {
        EXPECT_TRUE(word == "*" || absl::StrContains(text, absl::StrCat("`", word, "`"))) << word;
      }
    }
  }
  for (const LaterKey& key : LaterKeys()) {
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat("`", key.path, "`"))) << key.path;
  }
}

}  // namespace
}  // namespace stagecoach
