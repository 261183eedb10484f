// What a checkpoint behind training costs: how long a snapshot stalls the executor, and how fast its shard is written,
// against `dd` with fsync of as many bytes to the same directory, one after the other in every round.
//
//   checkpoint_write [--directory DIR] [--mebibytes 1424] [--rounds 5] [--threads 1]
//
// The default is the state of a 124M GPT-2 (parameters and two moments). Prints rates, the medians' ratio (bar 0.8),
// and the stall in milliseconds per GB.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/message_queue.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/worker/tensors_only_state.h"
#include "worker/checkpoint/snapshot_writer.h"
#include "worker/device/cpu/cpu_device.h"

extern char** environ;

namespace stagecoach {
namespace {

constexpr size_t kNumTensors = 50;
constexpr double kGigabyte = 1e9;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds that the child process takes.
double RunDd(const std::string& path, size_t mebibytes) {
  std::vector<std::string> arguments = {
      "dd",         "if=/dev/zero", absl::StrCat("of=", path), "bs=1M", absl::StrCat("count=", mebibytes),
      "conv=fsync", "status=none"};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  STAGECOACH_CHECK(posix_spawnp(&child, "dd", nullptr, nullptr, pointers.data(), environ) == 0);
  int status = 0;
  STAGECOACH_CHECK(waitpid(child, &status, 0) == child && status == 0);
  const double seconds = SecondsSince(start);
  STAGECOACH_CHECK(unlink(path.c_str()) == 0);
  return seconds;
}

class Benchmark {
 public:
  Benchmark(const std::string& directory, size_t mebibytes, int threads)
      : directory_(directory), mebibytes_(mebibytes), device_(*CpuDevice::Create({.threads = threads})) {
    const size_t elements = (mebibytes << 20) / sizeof(float) / kNumTensors;
    for (size_t i = 0; i < kNumTensors; ++i) {
      std::vector<float> values(elements);
      for (size_t k = 0; k < elements; ++k) values[k] = static_cast<float>(i * elements + k);
      state_.Add<float>(absl::StrCat("tensor", i), v1::DTYPE_F32, {static_cast<int64_t>(elements)}, values);
    }
    StageState* const states[] = {&state_};
    STAGECOACH_CHECK(writer_.Allocate(*device_, states).ok());
  }

  void Round() {
    const double gigabytes = static_cast<double>(mebibytes_ << 20) / kGigabyte;
    const double dd = RunDd(directory_ + "/dd", mebibytes_);
    auto start = std::chrono::steady_clock::now();
    STAGECOACH_CHECK(writer_.Take(*stream_, {}).ok());
    const double stall = SecondsSince(start);
    start = std::chrono::steady_clock::now();
    Write();
    const double write = SecondsSince(start);
    STAGECOACH_CHECK(unlink((directory_ + "/shard").c_str()) == 0);
    std::printf("dd %7.1f MB/s   shard %7.1f MB/s   ratio %.2f   stall %.3f s, %.0f ms per GB\n", 1e3 * gigabytes / dd,
                1e3 * gigabytes / write, dd / write, stall, 1e3 * stall / gigabytes);
    std::fflush(stdout);
    dd_.push_back(dd);
    write_.push_back(write);
    stall_.push_back(stall / gigabytes);
  }

  void Print() const {
    std::printf("medians: ratio %.2f, stall %.0f ms per GB\n", Median(dd_) / Median(write_), 1e3 * Median(stall_));
  }

 private:
  void Write() {
    SnapshotWriter::Order order{
        .write = {},
        .identity = {JobId("job"), Epoch(1), Incarnation(1)},
        .may_go_on = [] { return absl::OkStatus(); },
        .on_end = [this](absl::StatusOr<v1::ShardWritten> end) { STAGECOACH_CHECK(ends_.Push(std::move(end)).ok()); }};
    order.write.set_step(state_.step.value());
    order.write.set_directory(directory_);
    order.write.set_file("shard");
    STAGECOACH_CHECK(writer_.Write(std::move(order)).ok());
    const absl::StatusOr<absl::StatusOr<v1::ShardWritten>> end = ends_.Pop(absl::InfiniteDuration());
    STAGECOACH_CHECK(end.ok());
    if (!end->ok()) std::fprintf(stderr, "%s\n", end->status().ToString().c_str());
    STAGECOACH_CHECK(end->ok());
  }

  const std::string directory_;
  const size_t mebibytes_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_ = *device_->CreateStream();
  TensorsOnlyState state_;
  MessageQueue<absl::StatusOr<v1::ShardWritten>> ends_{1};
  SnapshotWriter writer_{FileSystem::Posix()};
  std::vector<double> dd_, write_, stall_;
};

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) {
  CLI::App app("cost of a checkpoint behind training");
  const stagecoach::TemporaryDirectory temporary;
  std::string directory = temporary.path();
  size_t mebibytes = 1424;
  int rounds = 5;
  int threads = 1;
  app.add_option("--directory", directory, "where files are written; default: a temporary one");
  app.add_option("--mebibytes", mebibytes, "size of the state")->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "of dd and shard")->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "of the device")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  stagecoach::Benchmark benchmark(directory, mebibytes, threads);
  for (int round = 0; round < rounds; ++round) benchmark.Round();
  benchmark.Print();
  return 0;
}
