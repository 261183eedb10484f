#include "common/proto_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "google/protobuf/util/message_differencer.h"
#include "stagecoach/v1/checkpoint.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::HasSubstr;

template <typename M>
absl::Status Parse(const std::string& text, const JsonLimits& limits = {}) {
  M message;
  return ParseJson(text, message, limits);
}

TEST(ProtoJsonTest, PrintsSnakeCaseNumbersAndShortEnumNames) {
  v1::JobStatus status;
  status.set_job("a\"b");
  status.set_state(v1::JOB_STATE_SUCCEEDED);
  status.set_step(18446744073709551615u);
  EXPECT_EQ(PrintJson(status), R"({"job": "a\"b", "state": "SUCCEEDED", "reason": "", "message": "", )"
                               R"("step": 18446744073709551615, "epoch": 0})");
}

TEST(ProtoJsonTest, LeavesOutUnsetOptionalFieldsAndMessages) {
  v1::StepEvent event;
  EXPECT_THAT(PrintJson(event), testing::Not(HasSubstr("validation_loss")));
  event.set_validation_loss(0);
  EXPECT_THAT(PrintJson(event), HasSubstr("\"validation_loss\": 0,"));
  EXPECT_THAT(PrintJson(v1::CheckpointManifest()), testing::Not(HasSubstr("spec")));
  EXPECT_EQ(PrintJson(v1::Initializer()), "{}");
}

TEST(ProtoJsonTest, PrintsNonFiniteNumbersAsNull) {
  v1::StepEvent event;
  event.set_loss(std::nan(""));
  event.add_stage_utilization(std::numeric_limits<double>::infinity());
  EXPECT_THAT(PrintJson(event), HasSubstr("\"loss\": null"));
  EXPECT_THAT(PrintJson(event), HasSubstr("\"stage_utilization\": [null]"));
}

TEST(ProtoJsonTest, PrintsMapsInKeyOrderAndBytesAsHexadecimal) {
  v1::LayerSpec layer;
  (*layer.mutable_sizes())["b"] = 2;
  (*layer.mutable_sizes())["a"] = 1;
  EXPECT_THAT(PrintJson(layer), HasSubstr(R"("sizes": {"a": 1, "b": 2}, "scalars": {})"));
  v1::RunStep run;
  run.set_program_hash(std::string("\x00\xff", 2));
  EXPECT_THAT(PrintJson(run), HasSubstr("\"program_hash\": \"00ff\""));
}

TEST(ProtoJsonTest, PrintsTextThatIsNotUtf8AsValidJson) {
  v1::JobStatus status;
  status.set_message("\xff\x01");
  EXPECT_THAT(PrintJson(status), HasSubstr("\"message\": \"\xEF\xBF\xBD\\u0001\""));
}

TEST(ProtoJsonTest, IndentsTwoSpacesALevel) {
  v1::CheckpointShard shard;
  shard.set_file("f");
  v1::Placement placement;
  placement.add_members()->set_worker("w");
  EXPECT_EQ(PrintJson(placement, JsonLayout::kIndented),
            "{\n  \"epoch\": 0,\n  \"members\": [\n    {\n      \"worker\": \"w\",\n      \"incarnation\": 0,\n"
            "      \"memory_bytes\": 0\n    }\n  ]\n}");
}

TEST(ProtoJsonTest, DoublesReadBackToTheSameBits) {
  for (const double value : {0.1, 1.0 / 3, -0.0, 5e-324, 1.7976931348623157e308, 1e22, 123456789012345678.0}) {
    v1::StepEvent event, back;
    event.set_loss(value);
    ASSERT_TRUE(ParseJson(PrintJson(event), back).ok());
    EXPECT_EQ(std::signbit(back.loss()), std::signbit(value));
    EXPECT_EQ(back.loss(), value);
  }
}

TEST(ProtoJsonTest, ReadsBackWhatItPrints) {
  v1::CheckpointManifest manifest;
  manifest.set_version(1);
  manifest.set_job("café");
  (*manifest.mutable_spec()->mutable_labels())["a.b"] = "c\n";
  manifest.mutable_spec()->mutable_parallelism()->mutable_partition()->add_num_blocks(7);
  manifest.mutable_spec()->mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_LAYERS);
  manifest.add_shards()->set_bytes(18446744073709551615u);
  v1::CheckpointTensor& tensor = *manifest.add_tensors();
  tensor.set_dtype(v1::DTYPE_BF16);
  tensor.add_shape(1);
  tensor.add_shape(1);
  tensor.set_optimizer_state(true);
  for (const JsonLayout layout : {JsonLayout::kOneLine, JsonLayout::kIndented}) {
    v1::CheckpointManifest back;
    const absl::Status status = ParseJson(PrintJson(manifest, layout), back);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(MessageDifferencer::Equals(manifest, back)) << back.DebugString();
  }
  v1::RunStep run, run_back;
  run.set_program_hash("\x01\xfe");
  ASSERT_TRUE(ParseJson(PrintJson(run), run_back).ok());
  EXPECT_EQ(run_back.program_hash(), run.program_hash());
}

struct BadText {
  const char* name;
  std::string text;
  const char* message;
};
class ProtoJsonRejects : public testing::TestWithParam<BadText> {};

TEST_P(ProtoJsonRejects, WithAMessageThatSaysWhere) {
  const absl::Status status = Parse<v1::CheckpointManifest>(GetParam().text);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    ProtoJsonTest, ProtoJsonRejects,
    testing::Values(BadText{"Empty", "", "not JSON at byte 1"}, BadText{"Truncated", R"({"job": "a)", "not JSON"},
                    BadText{"TrailingText", "{} x", "not JSON"},
                    BadText{"NulByte", std::string("{}\0x", 4), "not JSON"}, BadText{"TwoValues", "{}{}", "not JSON"},
                    BadText{"Number", "3", "must be one object"}, BadText{"Array", "[]", "must be one object"},
                    BadText{"ByteOrderMark", "\xEF\xBB\xBF{}", "byte order mark"},
                    BadText{"InvalidUtf8", "{\"job\": \"\xff\"}", "not JSON"},
                    BadText{"NotANumber", R"({"step": NaN})", "not JSON"},
                    BadText{"UnknownKey", R"({"spec": {"nme": "x"}})", "spec: unknown key \"nme\""},
                    BadText{"EscapedUnknownKey", R"({"\u001b[31m": 1})", R"(unknown key "\033[31m")"},
                    BadText{"DuplicateKey", R"({"job": "a", "j\u006fb": "b"})", "key \"job\" twice"},
                    BadText{"DuplicateMapKey", R"({"spec": {"labels": {"a": "", "a": ""}}})",
                            "spec.labels: key \"a\" twice"},
                    BadText{"Null", R"({"step": null})", "step: null"},
                    BadText{"Negative", R"({"step": -1})", "step: -1 is out of range"},
                    BadText{"Fraction", R"({"step": 1.0})", "step: needs uint64"},
                    BadText{"Exponent", R"({"step": 1e3})", "step: needs uint64"},
                    BadText{"TooLarge", R"({"version": 4294967296})", "version: 4294967296 is out of range"},
                    BadText{"TooLargeFor64Bits", R"({"step": 18446744073709551616})", "step: needs uint64"},
                    BadText{"TooLargeForADouble", R"({"spec": {"optimizer": {"lr": 1e999}}})", "not JSON"},
                    BadText{"StringForNumber", R"({"step": "1"})", "step: needs uint64, has a string"},
                    BadText{"NumberForString", R"({"job": 1})", "job: needs string, has a number"},
                    BadText{"ScalarForMessage", R"({"spec": 1})", "spec: needs an object"},
                    BadText{"ObjectForScalar", R"({"step": {}})", "step: needs uint64, has an object"},
                    BadText{"ScalarForArray", R"({"shards": 1})", "shards: needs an array"},
                    BadText{"ObjectForArray", R"({"shards": {}})", "shards: needs an array"},
                    BadText{"ArrayForScalar", R"({"job": ["a"]})", "job: an array"},
                    BadText{"NestedArray", R"({"shards": [[]]})", "an array where none is allowed"},
                    BadText{"ArrayForMap", R"({"spec": {"labels": []}})", "spec.labels: an array"},
                    BadText{"UnknownEnumValue", R"({"tensors": [{"dtype": "F31"}]})", "dtype: unknown value \"F31\""},
                    BadText{"PrefixedEnumValue", R"({"tensors": [{"dtype": "DTYPE_F32"}]})", "unknown value"},
                    BadText{"EnumNumber", R"({"tensors": [{"dtype": 1}]})", "dtype: needs enum"},
                    BadText{"BoolForEnum", R"({"tensors": [{"dtype": true}]})", "dtype: needs enum"}),
    [](const testing::TestParamInfo<BadText>& bad) { return std::string(bad.param.name); });

TEST(ProtoJsonTest, RejectsBytesThatAreNotHexadecimal) {
  for (const char* digits : {"0", "0g", "AB"}) {
    EXPECT_EQ(Parse<v1::RunStep>(absl::StrCat(R"({"program_hash": ")", digits, "\"}")).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(ProtoJsonTest, BoundsSizeAndDepth) {
  EXPECT_EQ(Parse<v1::CheckpointManifest>(std::string(101, ' '), {.max_bytes = 100}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Parse<v1::CheckpointManifest>(R"({"spec": {"model": {}}})", {.max_depth = 2}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Parse<v1::CheckpointManifest>(R"({"spec": {"model": {}}})", {.max_depth = 3}).code(),
            absl::StatusCode::kOk);
  EXPECT_FALSE(Parse<v1::CheckpointManifest>(std::string(1 << 20, '[')).ok());
}

}  // namespace
}  // namespace stagecoach
