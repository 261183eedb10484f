#include "formats/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

absl::StatusOr<SafetensorsHeader> Parse(const std::string& text, uint64_t data_bytes) {
  return ParseSafetensorsHeader(text, kSafetensorsLengthBytes + text.size() + data_bytes);
}

struct BadHeader {
  const char* name;
  std::string text;
  uint64_t data_bytes;
  const char* message;
};
class SafetensorsHeaderRejects : public testing::TestWithParam<BadHeader> {};

TEST_P(SafetensorsHeaderRejects, WithAMessageThatSaysWhat) {
  const auto header = Parse(GetParam().text, GetParam().data_bytes);
  EXPECT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(header.status().message()), HasSubstr(GetParam().message));
}

std::string Entry(absl::string_view dtype, absl::string_view shape, absl::string_view offsets) {
  return absl::StrCat(R"("dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets);
}
std::string One(absl::string_view dtype, absl::string_view shape, absl::string_view offsets) {
  return absl::StrCat(R"({"a":{)", Entry(dtype, shape, offsets), "}}");
}
std::string Two(absl::string_view a, absl::string_view b) {
  return absl::StrCat(R"({"a":{)", Entry(R"("U8")", "[4]", a), R"(},"b":{)", Entry(R"("U8")", "[4]", b), "}}");
}
const char kF32[] = R"("F32")";

INSTANTIATE_TEST_SUITE_P(
    SafetensorsHeaderTest, SafetensorsHeaderRejects,
    testing::Values(
        // The text.
        BadHeader{"Empty", "", 0, "not JSON"}, BadHeader{"WhitespaceOnly", "    ", 0, "not JSON"},
        BadHeader{"TruncatedText", R"({"a":{"dtype":"F3)", 8, "not JSON"},
        BadHeader{"NulPadding", std::string("{}\0\0", 4), 0, "not JSON"},
        BadHeader{"TextAfterTheObject", "{}{}", 0, "not JSON"},
        BadHeader{"InvalidUtf8InAName", "{\"\xff\":{}}", 0, "not JSON"},
        BadHeader{"InvalidUtf8InMetadata", "{\"__metadata__\":{\"a\":\"\xc0\x80\"}}", 0, "not JSON"},
        BadHeader{"LoneSurrogate", R"({"\ud800":{}})", 0, "not JSON"},
        BadHeader{"ByteOrderMark", "\xEF\xBB\xBF{}", 0, "byte order mark"},
        BadHeader{"ArrayAtTheTop", "[]", 0, "not a JSON object"},
        BadHeader{"NumberAtTheTop", "1", 0, "not a JSON object"},
        BadHeader{"DeepArrays", std::string(1 << 20, '['), 0, "not a JSON object"},
        BadHeader{"DeepObjects", R"({"a":{"a":{"a":{"a":)", 0, "unknown key \"a\""},
        BadHeader{"DeepShape", R"({"a":{"shape":[[[[[[)", 0, "tensor \"a\": \"shape\" has an array"},
        BadHeader{"DeepMetadata", R"({"__metadata__":{"a":{"b":{)", 0, "needs strings"},
        // Keys.
        BadHeader{
            "DuplicateTensor",
            absl::StrCat(R"({"a":{)", Entry(kF32, "[2]", "[0,8]"), R"(},"a":{)", Entry(kF32, "[2]", "[0,8]"), "}}"), 8,
            "\"a\" is there twice"},
        BadHeader{"DuplicateTensorByEscape",
                  absl::StrCat(R"({"a":{)", Entry(kF32, "[2]", "[0,8]"), R"(},"\u0061":{)",
                               Entry(kF32, "[2]", "[8,16]"), "}}"),
                  16, "\"a\" is there twice"},
        BadHeader{"DuplicateMetadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
        BadHeader{"DuplicateMetadataKey", R"({"__metadata__":{"k":"1","k":"2"}})", 0, "has \"k\" twice"},
        BadHeader{"DuplicateField", R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1,
                  "tensor \"a\": dtype is there twice"},
        BadHeader{"UnknownField", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]}})", 1,
                  "tensor \"a\": unknown key \"strides\""},
        BadHeader{"MissingDtype", R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "tensor \"a\": dtype is missing"},
        BadHeader{"MissingShape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "shape is missing"},
        BadHeader{"MissingOffsets", R"({"a":{"dtype":"U8","shape":[1]}})", 1, "data_offsets is missing"},
        BadHeader{"EmptyEntry", R"({"a":{}})", 0, "is missing"},
        // Values.
        BadHeader{"MetadataNumber", R"({"__metadata__":{"k":1}})", 0, "needs strings; \"k\" is a number"},
        BadHeader{"MetadataNull", R"({"__metadata__":null})", 0, "needs an object, has null"},
        BadHeader{"MetadataString", R"({"__metadata__":"x"})", 0, "needs an object"},
        BadHeader{"TensorString", R"({"a":"x"})", 0, "\"a\" needs an object, has a string"},
        BadHeader{"UnknownDtype", One(R"("F33")", "[2]", "[0,8]"), 8, "tensor \"a\": unknown dtype \"F33\""},
        BadHeader{"UnknownDtypeDoesNotSkipOffsets", One(R"("F33")", "[2]", "[0,99999]"), 8, "unknown dtype"},
        BadHeader{"LowerCaseDtype", One(R"("f32")", "[2]", "[0,8]"), 8, "unknown dtype"},
        BadHeader{"DtypeNumber", One("32", "[2]", "[0,8]"), 8, "tensor \"a\": \"dtype\" has a number"},
        BadHeader{"ShapeNumber", One(kF32, "2", "[0,8]"), 8, "\"shape\" has a number"},
        BadHeader{"NegativeDimension", One(kF32, "[-2]", "[0,8]"), 8, "has a negative number"},
        BadHeader{"NegativeZero", One(kF32, "[-0]", "[0,0]"), 0, "has a negative number"},
        BadHeader{"FractionalDimension", One(kF32, "[2.0]", "[0,8]"), 8, "not a plain integer"},
        BadHeader{"NullDimension", One(kF32, "[null]", "[0,8]"), 8, "has null"},
        BadHeader{"StringOffset", One(kF32, "[2]", R"(["0",8])"), 8, "has a string"},
        BadHeader{"ExponentOffset", One(kF32, "[2]", "[0,8e0]"), 8, "not a plain integer"},
        BadHeader{"NegativeOffset", One(kF32, "[2]", "[-8,0]"), 8, "has a negative number"},
        BadHeader{"OffsetOver64Bits", One(kF32, "[2]", "[0,18446744073709551616]"), 8, "not a plain integer"},
        BadHeader{"OneOffset", One(kF32, "[2]", "[0]"), 8, "needs two numbers, has 1"},
        BadHeader{"ThreeOffsets", One(kF32, "[2]", "[0,8,8]"), 8, "needs two numbers, has more"},
        BadHeader{"ScalarOffsets", One(kF32, "[2]", "8"), 8, "\"data_offsets\" has a number"},
        // Arithmetic.
        BadHeader{"ShapeOverflow", One(kF32, "[2,9223372036854775808]", "[0,8]"), 8, "more than 2^64 elements"},
        BadHeader{"ShapeOverflowByManyDimensions", One(kF32, "[65536,65536,65536,65536,65536]", "[0,8]"), 8,
                  "more than 2^64 elements"},
        BadHeader{"BitsOverflow", One(kF32, "[1152921504606846976]", "[0,8]"), 8, "more than 2^64 bits"},
        BadHeader{"ShapeSmallerThanRange", One(kF32, "[1]", "[0,8]"), 8, "has 8 bytes; its dtype and shape need 4"},
        BadHeader{"ShapeLargerThanRange", One(kF32, "[3]", "[0,8]"), 8, "has 8 bytes; its dtype and shape need 12"},
        BadHeader{"OddNumberOfHalfBytes", One(R"("F4")", "[3]", "[0,1]"), 1, "12 bits are not whole bytes"},
        BadHeader{"SixBitsNotWhole", One(R"("F6_E2M3")", "[2]", "[0,1]"), 1, "12 bits are not whole bytes"},
        BadHeader{"EndBeforeBegin", One(R"("U8")", "[0]", "[4,0]"), 4, "ends before it begins"},
        // Tiling.
        BadHeader{"Overlap", Two("[0,4]", "[2,6]"), 6, "tensor \"b\": [2, 6) overlaps"},
        BadHeader{"SameBytesTwice", Two("[0,4]", "[0,4]"), 4, "overlaps"},
        BadHeader{"Hole", Two("[0,4]", "[5,9]"), 9, "tensor \"b\": [5, 9) leaves a hole"},
        BadHeader{"HoleAtTheStart", One(R"("U8")", "[4]", "[4,8]"), 8, "leaves a hole"},
        BadHeader{"PastTheEnd", One(kF32, "[2]", "[0,8]"), 7, "past the end"},
        BadHeader{"FarPastTheEnd", One(R"("U8")", "[9223372036854775807]", "[0,9223372036854775807]"), 7,
                  "has more than 2^64 bits"},
        BadHeader{"TrailingBytes", One(kF32, "[2]", "[0,8]"), 9, "1 bytes after the last tensor"},
        BadHeader{"BytesWithoutTensors", "{}", 1, "1 bytes after the last tensor"},
        // What is printed.
        BadHeader{"ControlCharactersAreEscaped", R"({"\u001b[2J\u0000/":1})", 0, R"("\033[2J\000/")"}),
    [](const testing::TestParamInfo<BadHeader>& bad) { return std::string(bad.param.name); });

TEST(SafetensorsHeaderTest, LongNamesAreCutInMessages) {
  const auto header = Parse(absl::StrCat(R"({")", std::string(1 << 20, 'x'), R"(":1})"), 0);
  EXPECT_LT(header.status().message().size(), 300u);
}

TEST(SafetensorsHeaderTest, AcceptsEveryTypeAndWhitespaceAround) {
  const std::pair<const char*, unsigned> types[] = {
      {"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},        {"F32", 32},    {"I64", 64},    {"U64", 64},    {"F64", 64},
      {"C64", 64},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const auto& [name, bits] : types) {
    const uint64_t bytes = bits;  // eight elements
    const auto header = Parse(
        absl::StrCat(" \n", One(absl::StrCat("\"", name, "\""), "[2,4]", absl::StrCat("[0,", bytes, "]")), "\t\r\n "),
        bytes);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(NameOf(header->tensors[0].type), std::string(name));
    EXPECT_EQ(BitsOf(header->tensors[0].type), bits);
  }
}

TEST(SafetensorsHeaderTest, AcceptsScalarsAndEmptyTensorsAnywhere) {
  const std::string text = absl::StrCat(R"({"z":{)", Entry(kF32, "[]", "[0,4]"), R"(},"a":{)",
                                        Entry(kF32, "[3,0]", "[4,4]"), R"(},"b":{)", Entry(kF32, "[0]", "[0,0]"), "}}");
  const auto header = Parse(text, 4);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors[0].name, "b");
  EXPECT_EQ(header->tensors[1].name, "z");
  EXPECT_EQ(header->tensors[1].begin, 8 + text.size());
  EXPECT_EQ(header->tensors[2].shape, (std::vector<uint64_t>{3, 0}));
  EXPECT_TRUE(Parse("{}", 0).ok());
}

TEST(SafetensorsHeaderTest, MapsTheTypesThatStagecoachComputesWith) {
  for (int number = v1::DType_MIN; number <= v1::DType_MAX; ++number) {
    const auto dtype = static_cast<v1::DType>(number);
    const auto type = SafetensorsTypeOf(dtype);
    ASSERT_EQ(type.has_value(), dtype != v1::DTYPE_UNSPECIFIED);
    if (type.has_value()) {
      EXPECT_EQ(DTypeOf(*type), dtype);
    }
  }
  EXPECT_EQ(DTypeOf(SafetensorsType::kC64), v1::DTYPE_UNSPECIFIED);
}

TEST(SafetensorsHeaderTest, LaysOutByElementSizeThenName) {
  std::vector<SafetensorsTensor> tensors = {{"c", SafetensorsType::kU8, {3}},
                                            {"b", SafetensorsType::kF32, {1}},
                                            {"a", SafetensorsType::kF32, {}},
                                            {"d", SafetensorsType::kF64, {2}}};
  const auto bytes = LayOutSafetensors({{"k", "\"\n"}}, tensors);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->size() % 8, 0u);
  const auto header = ParseSafetensorsHeader(absl::string_view(*bytes).substr(8), bytes->size() + 27);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata.at("k"), "\"\n");
  std::string names;
  for (const SafetensorsTensor& tensor : header->tensors) names += tensor.name;
  EXPECT_EQ(names, "dabc");
}

TEST(SafetensorsHeaderTest, RefusesToLayOutWhatCannotBeRead) {
  const auto refuses = [](const SafetensorsMetadata& metadata, std::vector<SafetensorsTensor> tensors) {
    return LayOutSafetensors(metadata, tensors).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses({}, {{"a"}, {"a"}}));
  EXPECT_TRUE(refuses({}, {{"__metadata__"}}));
  EXPECT_TRUE(refuses({}, {{"\xff"}}));
  EXPECT_TRUE(refuses({{"k", "\xff"}}, {}));
  EXPECT_TRUE(refuses({}, {{"a", SafetensorsType::kF32, {uint64_t{1} << 63, 2}}}));
  EXPECT_TRUE(refuses({}, {{"a", SafetensorsType::kF4, {3}}}));
  EXPECT_TRUE(refuses({{"k", std::string(kMaxSafetensorsHeaderBytes, 'x')}}, {}));
}

}  // namespace
}  // namespace stagecoach
