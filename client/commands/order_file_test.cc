#include "client/commands/order_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/file_system.h"
#include "coordinator/schedule/compute_csv.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class OrderFileTest : public testing::Test {
 protected:
  absl::StatusOr<v1::ComputeTable> Read(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Posix(), path_, text).ok());
    return ReadOrderFile(path_);
  }
  std::string Refusal(const std::string& text) {
    const absl::Status status = Read(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith(path_ + ": "));
    return std::string(status.message());
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.Path("order.csv");
};

TEST_F(OrderFileTest, ReadsWhatPyTorchWrites) {
  const auto order = Read("0F0,0F1,,0B0, 0B1\r\n1F0,1I0,(1F1;1W0)OVERLAP_F_B,1I1,1W1\r\n");
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->schedule(), "csv");
  EXPECT_EQ(ComputeCsv(*order), "0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1W0,1I1,1W1\n");
}

TEST_F(OrderFileTest, TheExampleIsAnOrderForFourWorkers) {
  const auto order = ReadOrderFile(STAGECOACH_SOURCE_DIR "/examples/tiny-4-workers.csv");
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->workers_size(), 4);
  EXPECT_EQ(order->num_micro_batches(), 8u);
}

TEST_F(OrderFileTest, WhatIsNoOrderIsRefusedWithItsPlace) {
  EXPECT_THAT(Refusal(""), HasSubstr("there are no actions"));
  EXPECT_THAT(Refusal("version: 1\n"), HasSubstr("line 1, column 1 (cell 1): \"version: 1\" is no action"));
  EXPECT_THAT(Refusal("0F0,0B0\n1F0,1G0\n"), HasSubstr("line 2, column 5 (cell 2): \"1G0\" is no action"));
  EXPECT_THAT(Refusal("0F0,0B0,0F0\n1F0,1B0\n"),
              HasSubstr("line 1, column 9 (cell 3, 0F0): is there a second time; the first is line 1, column 1"));
  EXPECT_THAT(Refusal("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n"), HasSubstr("line 2: 1B1 is missing"));
  EXPECT_THAT(Refusal("0F0,0B0\n2F0,2B0\n"), HasSubstr("stage 1 is missing"));
  EXPECT_THAT(Refusal("0F0\n1F0\n"), HasSubstr("it has no backward"));
  EXPECT_THAT(Refusal("0F0,0R0,0B0\n"), HasSubstr("parallelism.activation_checkpointing"));
  EXPECT_THAT(Refusal("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
              HasSubstr("line 1, column 5 (cell 2, 0SEND_F0): a compute-only table has F, B, I, W and R alone; this is "
                        "a lowered file"));
  EXPECT_THAT(Refusal("1F0,1B0\n0F0,0B0\n"), HasSubstr("neither in a loop"));
}

TEST_F(OrderFileTest, WhatCannotBeReadIsNamed) {
  const std::string nowhere = directory_.Path("nowhere.csv");
  EXPECT_THAT(std::string(ReadOrderFile(nowhere).status().message()), HasSubstr(nowhere));
  EXPECT_THAT(std::string(ReadOrderFile(directory_.Path("")).status().message()), HasSubstr(directory_.Path("")));
  EXPECT_THAT(Read(std::string(7 << 20, ' ')).status().ToString(), HasSubstr("at most 6291456 are accepted"));
}

}  // namespace
}  // namespace stagecoach
