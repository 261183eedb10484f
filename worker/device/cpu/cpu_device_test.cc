#include "worker/device/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace stagecoach {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<Device> CreateDevice(int threads) {
  absl::StatusOr<std::unique_ptr<Device>> device = CpuDevice::Create({.threads = threads});
  EXPECT_EQ(device.status(), absl::OkStatus());
  return *std::move(device);
}

TEST(CpuDeviceTest, SaysWhatItIs) {
  const std::unique_ptr<Device> device = CreateDevice(1);
  const DeviceCapabilities& capabilities = device->capabilities();
  EXPECT_EQ(capabilities.kind, "cpu");
  EXPECT_TRUE(capabilities.completes_at_enqueue);
  EXPECT_TRUE(capabilities.host_addressable);
  EXPECT_EQ(capabilities.compute_dtype, v1::DTYPE_F32);
  EXPECT_GT(capabilities.memory_bytes, size_t{1} << 20);
  EXPECT_THAT(capabilities.numerics_class, StartsWith("cpu/"));
  EXPECT_EQ(std::count(capabilities.numerics_class.begin(), capabilities.numerics_class.end(), '/'), 4);
  EXPECT_EQ(capabilities.numerics_class, CreateDevice(2)->capabilities().numerics_class)
      << "the number of threads belongs to the job";
}

TEST(CpuDeviceTest, RefusesToHaveNoThreads) {
  const absl::StatusOr<std::unique_ptr<Device>> device = CpuDevice::Create({.threads = 0});
  EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuDeviceTest, AllocatesZeroedAlignedMemory) {
  const std::unique_ptr<Device> device = CreateDevice(1);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{5} << 20}) {
    const absl::StatusOr<std::unique_ptr<Memory>> memory = device->Allocate(bytes, MemoryKind::kDevice);
    ASSERT_EQ(memory.status(), absl::OkStatus());
    EXPECT_EQ((*memory)->bytes(), bytes);
    ASSERT_NE((*memory)->data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->data()) % 64, uintptr_t{0});
    EXPECT_TRUE(
        std::all_of((*memory)->data(), (*memory)->data() + bytes, [](std::byte b) { return b == std::byte{}; }));
  }
}

TEST(CpuDeviceTest, RefusesMoreMemoryThanThereIs) {
  const std::unique_ptr<Device> device = CreateDevice(1);
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), device->capabilities().memory_bytes * 4}) {
    const absl::StatusOr<std::unique_ptr<Memory>> memory = device->Allocate(bytes, MemoryKind::kPinnedHost);
    EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(memory.status().message()), HasSubstr(std::to_string(bytes)));
  }
}

TEST(CpuDeviceTest, RecordsOneEventThatIsAlwaysComplete) {
  const std::unique_ptr<Device> device = CreateDevice(1);
  absl::StatusOr<std::unique_ptr<Stream>> stream = device->CreateStream();
  ASSERT_EQ(stream.status(), absl::OkStatus());
  const absl::StatusOr<EventRef> first = device->Record(**stream), second = device->Record(**stream);
  ASSERT_EQ(first.status(), absl::OkStatus());
  EXPECT_EQ(*first, *second);
  EXPECT_TRUE(*(*first)->IsComplete());
  (*stream)->Cancel();
  EXPECT_EQ(device->Record(**stream).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace stagecoach
