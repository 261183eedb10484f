#include "tests/bench/gemm_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/bench/measured_job.h"
#include "tests/bench/product_replay.h"
#include "worker/device/cpu/cpu_device.h"

namespace stagecoach {
namespace {

Tensor Matrix(int64_t rows, int64_t columns) {
  static float present = 0;  // the replay has operands of its own
  return Tensor::Of(&present, v1::DTYPE_F32, {rows, columns});
}

void AddProducts(const BlockShape& block, ProductReplay& products) {
  const int64_t hidden = block.hidden;
  for (const auto& [in, out] : {std::pair(hidden, 3 * hidden), std::pair(hidden, hidden), std::pair(hidden, 4 * hidden),
                                std::pair(4 * hidden, hidden)}) {
    const Tensor x = Matrix(block.rows, in), y = Matrix(block.rows, out), weight = Matrix(in, out);
    products.Add({.a = x, .b = weight, .c = y});
    products.Add({.a = y, .b = weight, .c = x, .transpose_b = true});
    products.Add({.a = x, .b = y, .c = weight, .transpose_a = true, .accumulate = true});
  }
}

void RequireSystem(bool success, const char* call) {
  if (!success) Require(absl::ErrnoToStatus(errno, call));
}

// A process of this program with pipes to its standard input and output.
struct Child {
  pid_t pid = 0;
  int input = -1, output = -1;
};

Child Spawn(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int to_child[2], from_child[2];
  RequireSystem(pipe(to_child) == 0 && pipe(from_child) == 0, "pipe");
  const Child child = {.pid = fork(), .input = to_child[1], .output = from_child[0]};
  RequireSystem(child.pid >= 0, "fork");
  if (child.pid == 0) {
    dup2(to_child[0], STDIN_FILENO);
    dup2(from_child[1], STDOUT_FILENO);
    for (const int descriptor : {to_child[0], to_child[1], from_child[0], from_child[1]}) close(descriptor);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(to_child[0]);
  close(from_child[1]);
  return child;
}

}  // namespace

double GemmProcessesRate(int num_processes, const BlockShape& block, double seconds) {
  std::vector<Child> children;
  for (int i = 0; i < num_processes; ++i) {
    children.push_back(Spawn({"gemm-process", "--gemm-process", "--seq", absl::StrCat(block.rows), "--hidden",
                              absl::StrCat(block.hidden), "--gemm-seconds", absl::StrCat(seconds)}));
  }
  char byte = 0;
  for (const Child& child : children) RequireSystem(read(child.output, &byte, 1) == 1, "a process that multiplies");
  for (const Child& child : children) RequireSystem(write(child.input, &byte, 1) == 1, "a process that multiplies");
  double sum = 0;
  for (const Child& child : children) {
    double rate = 0;
    RequireSystem(read(child.output, &rate, sizeof(rate)) == sizeof(rate), "a process that multiplies");
    sum += rate;
    close(child.input);
    close(child.output);
    RequireSystem(waitpid(child.pid, nullptr, 0) == child.pid, "waitpid");
  }
  return sum;
}

void MultiplyWhenTold(const BlockShape& block, double seconds) {
  absl::StatusOr<std::unique_ptr<Device>> device = CpuDevice::Create({.threads = 1});
  Require(device.status());
  ProductReplay products(**device);
  AddProducts(block, products);
  Require(products.Prepare());
  char byte = 0;
  RequireSystem(write(STDOUT_FILENO, &byte, 1) == 1, "write");
  RequireSystem(read(STDIN_FILENO, &byte, 1) == 1, "read");
  const absl::Time start = absl::Now();
  double operations = 0;
  double passed = 0;
  while (passed < seconds) {
    Require(products.Multiply());
    operations += products.operations();
    passed = absl::ToDoubleSeconds(absl::Now() - start);
  }
  const double rate = operations / passed;
  RequireSystem(write(STDOUT_FILENO, &rate, sizeof(rate)) == sizeof(rate), "write");
}

}  // namespace stagecoach
