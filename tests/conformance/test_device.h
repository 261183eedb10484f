#ifndef STAGECOACH_TESTS_CONFORMANCE_TEST_DEVICE_H_
#define STAGECOACH_TESTS_CONFORMANCE_TEST_DEVICE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "worker/device/device.h"
#include "worker/device/device_factory.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

struct DeviceUnderTest {
  std::string name;
  DeviceFactory create;
  int threads = 1;

  friend std::ostream& operator<<(std::ostream& out, const DeviceUnderTest& device) { return out << device.name; }
};
std::vector<DeviceUnderTest> DevicesUnderTest();  // cpu on 1 and 2 threads, reference
DeviceUnderTest ReferenceUnderTest();
DeviceUnderTest CpuUnderTest(int threads);

// Values in [-1, 1) that f32 holds exactly, so that every device gets the same ones. Equal seeds, equal values.
std::vector<double> RandomValues(int64_t count, uint64_t seed);

// A device whose memory the host can address, a stream, and tensors that live as long as it does, each between two
// stretches of bytes that no operation may write. For one thread.
class TestDevice {
 public:
  explicit TestDevice(const DeviceUnderTest& device);
  ~TestDevice();  // fails the test if an operation wrote outside of a tensor

  Device& device() { return *device_; }
  TensorOperations& operations() { return device_->operations(); }
  Stream& stream() { return *stream_; }
  bool is_reference() const { return device_->capabilities().kind == "reference"; }
  v1::DType compute_dtype() const { return device_->capabilities().compute_dtype; }

  Tensor New(v1::DType dtype, std::initializer_list<int64_t> dims);  // zeroed
  Tensor New(std::initializer_list<int64_t> dims) { return New(compute_dtype(), dims); }
  // Of the compute dtype; `values` are rounded to it.
  Tensor From(const std::vector<double>& values, std::initializer_list<int64_t> dims);
  Tensor Random(uint64_t seed, std::initializer_list<int64_t> dims);
  Tensor FromIntegers(const std::vector<int32_t>& values, std::initializer_list<int64_t> dims);

 private:
  struct Guarded {
    std::unique_ptr<Memory> memory;
    size_t bytes;  // between the guards
  };

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Guarded> tensors_;
};

// Elements as float64, whatever the dtype (64-bit integers lose low bits).
std::vector<double> ValuesOf(const Tensor& t);
std::vector<char> BytesIn(const Tensor& t);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_CONFORMANCE_TEST_DEVICE_H_
