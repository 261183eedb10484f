#include "tests/conformance/test_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/memory_layout.h"
#include "common/philox.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"

namespace stagecoach {
namespace {

constexpr auto kGuard = std::byte{0xA5};
constexpr size_t kGuardBytes = kTensorAlignment;

template <typename T>
void ReadAs(const Tensor& t, std::vector<double>& values) {
  const T* from = t.as<T>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(from[i]);
}

}  // namespace

DeviceUnderTest ReferenceUnderTest() { return {"Reference", ReferenceDevice::Create, 1}; }

DeviceUnderTest CpuUnderTest(int threads) {
  return {threads == 1 ? "CpuOnOneThread" : "CpuOnTwoThreads", CpuDevice::Create, threads};
}

std::vector<DeviceUnderTest> DevicesUnderTest() { return {CpuUnderTest(1), CpuUnderTest(2), ReferenceUnderTest()}; }

std::vector<double> RandomValues(int64_t count, uint64_t seed) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t word = Philox({static_cast<uint32_t>(i), 0, 0, 0}, PhiloxKeyFrom(seed))[0];
    values[i] = static_cast<double>(word >> 8) * 0x1p-23 - 1;
  }
  return values;
}

TestDevice::TestDevice(const DeviceUnderTest& device) {
  absl::StatusOr<std::unique_ptr<Device>> created = device.create({.threads = device.threads});
  STAGECOACH_CHECK(created.ok());
  device_ = *std::move(created);
  STAGECOACH_CHECK(device_->capabilities().host_addressable);
  stream_ = *device_->CreateStream();
}

TestDevice::~TestDevice() {
  for (const Guarded& tensor : tensors_) {
    const std::byte* before = tensor.memory->data();
    const std::byte* after = before + kGuardBytes + tensor.bytes;
    const auto untouched = [](std::byte byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(before, before + kGuardBytes, untouched)) << "written before a tensor";
    EXPECT_TRUE(std::all_of(after, after + kGuardBytes, untouched)) << "written after a tensor";
  }
}

Tensor TestDevice::New(v1::DType dtype, std::initializer_list<int64_t> dims) {
  Tensor tensor = Tensor::Of(nullptr, dtype, dims);
  const size_t bytes = tensor.bytes();
  absl::StatusOr<std::unique_ptr<Memory>> memory = device_->Allocate(bytes + 2 * kGuardBytes, MemoryKind::kDevice);
  STAGECOACH_CHECK(memory.ok());
  std::byte* const first = (*memory)->data();
  std::fill_n(first, kGuardBytes, kGuard);
  std::fill_n(first + kGuardBytes + bytes, kGuardBytes, kGuard);
  tensor.data = first + kGuardBytes;
  tensors_.push_back({*std::move(memory), bytes});
  return tensor;
}

Tensor TestDevice::From(const std::vector<double>& values, std::initializer_list<int64_t> dims) {
  const Tensor tensor = New(dims);
  STAGECOACH_CHECK(static_cast<int64_t>(values.size()) == tensor.num_elements());
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == v1::DTYPE_F64) {
      tensor.as<double>()[i] = values[i];
    } else {
      tensor.as<float>()[i] = static_cast<float>(values[i]);
    }
  }
  return tensor;
}

Tensor TestDevice::Random(uint64_t seed, std::initializer_list<int64_t> dims) {
  return From(RandomValues(Tensor::Of(nullptr, compute_dtype(), dims).num_elements(), seed), dims);
}

Tensor TestDevice::FromIntegers(const std::vector<int32_t>& values, std::initializer_list<int64_t> dims) {
  const Tensor tensor = New(v1::DTYPE_I32, dims);
  STAGECOACH_CHECK(static_cast<int64_t>(values.size()) == tensor.num_elements());
  std::copy(values.begin(), values.end(), tensor.as<int32_t>());
  return tensor;
}

std::vector<double> ValuesOf(const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.num_elements()));
  switch (t.dtype) {
    case v1::DTYPE_F64:
      ReadAs<double>(t, values);
      break;
    case v1::DTYPE_F32:
      ReadAs<float>(t, values);
      break;
    case v1::DTYPE_I64:
      ReadAs<int64_t>(t, values);
      break;
    case v1::DTYPE_U64:
      ReadAs<uint64_t>(t, values);
      break;
    case v1::DTYPE_I32:
      ReadAs<int32_t>(t, values);
      break;
    default:
      STAGECOACH_CHECK(false);
  }
  return values;
}

std::vector<char> BytesIn(const Tensor& t) { return {t.as<char>(), t.as<char>() + t.bytes()}; }

}  // namespace stagecoach
