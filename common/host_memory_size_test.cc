#include "common/host_memory_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HostMemorySizeTest, ReadsAvailableMemory) {
  EXPECT_EQ(MemAvailableOf("MemTotal:       24683652 kB\nMemFree:  1 kB\nMemAvailable:   24027484 kB\nBuffers: 1 kB\n"),
            size_t{24027484} * 1024);
  EXPECT_EQ(MemAvailableOf("MemTotal:       24683652 kB\n"), std::nullopt);
  EXPECT_EQ(MemAvailableOf("MemAvailable: much kB\n"), std::nullopt);
  EXPECT_EQ(MemAvailableOf(""), std::nullopt);
}

TEST(HostMemorySizeTest, FindsLimitsOfTheGroupAndOfThoseAbove) {
  EXPECT_THAT(
      MemoryLimitFiles("0::/pods/one\n"),
      ElementsAre("/sys/fs/cgroup/pods/one/memory.max", "/sys/fs/cgroup/pods/memory.max", "/sys/fs/cgroup/memory.max"));
  EXPECT_THAT(MemoryLimitFiles("0::/\n"), ElementsAre("/sys/fs/cgroup/memory.max"));
  EXPECT_THAT(
      MemoryLimitFiles("9:cpu:/a\n4:hugetlb,memory:/b\n1:name=systemd:/c:d\n"),
      ElementsAre("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  EXPECT_THAT(MemoryLimitFiles("nonsense\n"), IsEmpty());
}

TEST(HostMemorySizeTest, FindsSomeMemoryHere) {
  EXPECT_GT(HostMemoryBytes(), size_t{1} << 20);
  EXPECT_LE(HostMemoryBytes(), InstalledMemoryBytes());
}

}  // namespace
}  // namespace stagecoach
