#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

// The golden vector: a = f32 [1, 2].
const std::string kGolden = std::string("\x58\0\0\0\0\0\0\0", 8) +
                            R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" +
                            "   " + std::string("\0\0\x80\x3f\0\0\0\x40", 8);

std::string LengthPrefix(uint64_t length) {
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix;
}

absl::StatusOr<SafetensorsReader> Read(std::string bytes) {
  return SafetensorsReader::Create(std::make_unique<MemoryFile>(std::move(bytes)), "dir/model.safetensors");
}

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

class SafetensorsTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  FaultFileSystem files_;
  const std::string path_ = directory_.Path("model.safetensors");
};

TEST_F(SafetensorsTest, ReadsTheGoldenVector) {
  const auto reader = Read(kGolden);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  EXPECT_EQ(reader->data_begin(), 96u);
  const SafetensorsTensor* tensor = reader->Find("a");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->type, SafetensorsType::kF32);
  EXPECT_EQ(tensor->shape, std::vector<uint64_t>{2});
  float values[2];
  ASSERT_TRUE(reader->Read(*tensor, 0, std::as_writable_bytes(std::span(values))).ok());
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  EXPECT_EQ(reader->Find("b"), nullptr);
}

TEST_F(SafetensorsTest, WritesTheGoldenVector) {
  auto writer = SafetensorsWriter::Create(files_, path_, {{"format", "pt"}}, {{"a", SafetensorsType::kF32, {2}}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(BytesOf(kGolden).subspan(96, 3)).ok());
  ASSERT_TRUE((*writer)->Append(BytesOf(kGolden).subspan(99)).ok());
  const auto written = (*writer)->Commit();
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(*ReadFile(files_, path_, 1000), kGolden);
  EXPECT_EQ(written->bytes, 104u);
  EXPECT_EQ(written->digest, "2304d47fe9b88f4dc600b9c7f6ebccf9");
}

TEST_F(SafetensorsTest, WhoTakesTheDigestComesToTheSameOne) {
  auto writer = SafetensorsWriter::Create(files_, path_, {{"format", "pt"}}, {{"a", SafetensorsType::kF32, {2}}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  FileDigest digest = (*writer)->TakeDigest();
  const auto data = BytesOf(kGolden).subspan(96);
  ASSERT_TRUE((*writer)->Append(data).ok());
  digest.Add(data.data(), data.size());
  const auto written = (*writer)->Commit();
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->digest, "");
  EXPECT_EQ(digest.Hex(), "2304d47fe9b88f4dc600b9c7f6ebccf9");
}

TEST_F(SafetensorsTest, ReadsTensorsThatAreNotAligned) {
  const std::string text =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})";
  std::string bytes = LengthPrefix(text.size()) + text + "\x07";
  const double value = 0.1;
  bytes.append(reinterpret_cast<const char*>(&value), 8);
  const auto reader = Read(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  double got = 0;
  ASSERT_TRUE(reader->Read(*reader->Find("b"), 0, std::as_writable_bytes(std::span(&got, 1))).ok());
  EXPECT_EQ(got, value);
}

TEST_F(SafetensorsTest, ReadsSlicesAndRefusesBytesOfOtherTensors) {
  const auto reader = Read(kGolden);
  const SafetensorsTensor& tensor = reader->tensors()[0];
  std::byte bytes[8];
  ASSERT_TRUE(reader->Read(tensor, 7, std::span(bytes, 1)).ok());
  EXPECT_EQ(bytes[0], std::byte{0x40});
  EXPECT_TRUE(reader->Read(tensor, 8, {}).ok());
  EXPECT_EQ(reader->Read(tensor, 1, bytes).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reader->Read(tensor, UINT64_MAX, std::span(bytes, 2)).code(), absl::StatusCode::kInvalidArgument);
}

struct BadFile {
  const char* name;
  std::string bytes;
  const char* message;
};
class SafetensorsRejects : public testing::TestWithParam<BadFile> {};

TEST_P(SafetensorsRejects, WithDataLossThatNamesTheFile) {
  const auto reader = Read(GetParam().bytes);
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr("dir/model.safetensors: "));
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    SafetensorsTest, SafetensorsRejects,
    testing::Values(BadFile{"EmptyFile", "", "0 bytes, fewer than 8"}, BadFile{"SevenBytes", "1234567", "fewer than 8"},
                    BadFile{"ZeroLength", LengthPrefix(0), "not JSON"},
                    BadFile{"LengthOverTheLimit", LengthPrefix(100'000'001), "at most 100000000"},
                    BadFile{"LargestLength", LengthPrefix(UINT64_MAX) + "{}", "at most 100000000"},
                    BadFile{"LengthAtTheLimitButOverTheFile", LengthPrefix(100'000'000) + "{}", "truncated"},
                    BadFile{"LengthOneOverTheFile", LengthPrefix(3) + "{}", "truncated"},
                    BadFile{"TruncatedData", kGolden.substr(0, 103), "tensor \"a\": [0, 8) lies past the end"},
                    BadFile{"TrailingData", kGolden + "x", "1 bytes after the last tensor"},
                    BadFile{"Text", "#!/bin/sh\necho hello\n", "not a safetensors file"}),
    [](const testing::TestParamInfo<BadFile>& bad) { return std::string(bad.param.name); });

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  for (size_t size = 0; size < kGolden.size(); ++size) {
    EXPECT_EQ(Read(kGolden.substr(0, size)).status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST_F(SafetensorsTest, AFileThatShrinksIsDataLoss) {
  ASSERT_TRUE(WriteFileAtomically(files_, path_, kGolden).ok());
  const auto reader = SafetensorsReader::Open(files_, path_);
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(truncate(path_.c_str(), 100), 0);
  std::byte bytes[8];
  const absl::Status status = reader->Read(reader->tensors()[0], 0, bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"a\""));
}

TEST_F(SafetensorsTest, ErrorsOfTheFileSystemKeepTheirCode) {
  EXPECT_EQ(SafetensorsReader::Open(files_, path_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(files_, path_, kGolden).ok());
  files_.Add({FileOperation::kRead, "model", 2, absl::UnknownError("Input/output error")});
  const auto reader = SafetensorsReader::Open(files_, path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::byte bytes[8];
  EXPECT_EQ(reader->Read(reader->tensors()[0], 0, bytes).code(), absl::StatusCode::kUnknown);
}

TEST_F(SafetensorsTest, AFullDiskLeavesNothingBehind) {
  for (const uint64_t free_bytes : {0u, 50u, 96u, 100u}) {
    files_.LimitFreeBytes(free_bytes);
    auto writer = SafetensorsWriter::Create(files_, path_, {{"format", "pt"}}, {{"a", SafetensorsType::kF32, {2}}});
    absl::Status status = writer.status();
    if (writer.ok()) status = (*writer)->Append(BytesOf(kGolden).subspan(96));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    writer = absl::CancelledError();
    EXPECT_TRUE(files_.List(directory_.path())->empty()) << free_bytes;
  }
}

TEST_F(SafetensorsTest, AFailedCommitKeepsTheOldFile) {
  ASSERT_TRUE(WriteFileAtomically(files_, path_, "old").ok());
  files_.Add({FileOperation::kCommit, "model", 0, absl::UnknownError("Input/output error")});
  {
    auto writer = SafetensorsWriter::Create(files_, path_, {}, {{"a", SafetensorsType::kF32, {2}}});
    ASSERT_TRUE((*writer)->Append(BytesOf(kGolden).subspan(96)).ok());
    EXPECT_EQ((*writer)->Commit().status().code(), absl::StatusCode::kUnknown);
  }
  EXPECT_EQ(*ReadFile(files_, path_, 1000), "old");
  EXPECT_EQ(files_.List(directory_.path())->size(), 1u);
}

TEST_F(SafetensorsTest, WriterWantsExactlyTheDeclaredBytes) {
  auto writer = SafetensorsWriter::Create(files_, path_, {}, {{"a", SafetensorsType::kF32, {2}}});
  ASSERT_TRUE(writer.ok());
  const std::string bytes(9, 'x');
  EXPECT_EQ((*writer)->Append(BytesOf(bytes)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE((*writer)->Append(BytesOf(bytes).first(7)).ok());
  EXPECT_EQ((*writer)->Commit().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE((*writer)->Append(BytesOf(bytes).first(1)).ok());
  EXPECT_TRUE((*writer)->Commit().ok());
}

TEST_F(SafetensorsTest, DeclarationOrderDoesNotChangeTheFile) {
  std::vector<SafetensorsWriter::Declaration> tensors = {
      {"b", SafetensorsType::kF32, {1}}, {"a", SafetensorsType::kF32, {1}}, {"c", SafetensorsType::kF64, {1}}};
  std::string contents[2];
  for (std::string& content : contents) {
    auto writer = SafetensorsWriter::Create(files_, path_, {}, tensors);
    ASSERT_TRUE(writer.ok());
    for (const SafetensorsTensor& tensor : (*writer)->tensors()) {
      ASSERT_TRUE((*writer)->Append(BytesOf(std::string(tensor.bytes(), tensor.name[0]))).ok());
    }
    ASSERT_TRUE((*writer)->Commit().ok());
    content = *ReadFile(files_, path_, 1000);
    std::reverse(tensors.begin(), tensors.end());
  }
  EXPECT_EQ(contents[0], contents[1]);
  EXPECT_THAT(contents[0], testing::EndsWith("ccccccccaaaabbbb"));
}

}  // namespace
}  // namespace stagecoach
