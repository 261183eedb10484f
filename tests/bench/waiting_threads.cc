#include "tests/bench/waiting_threads.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/bench/measured_job.h"
#include "tests/bench/observed_device.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kSettle = absl::Seconds(1);  // the others reach their waits
constexpr absl::Duration kMeasured = absl::Seconds(5);
constexpr double kBarPercent = 3;

struct ThreadUse {
  std::string name;
  double processor_seconds = 0;
};

// Of all threads of this process, by id.
std::map<int, ThreadUse> ThreadUses() {
  std::map<int, ThreadUse> uses;
  DIR* const directory = opendir("/proc/self/task");
  if (directory == nullptr) return uses;
  while (const dirent* const entry = readdir(directory)) {
    const int id = std::atoi(entry->d_name);
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/stat");
    std::string line;
    if (id == 0 || !std::getline(file, line)) continue;
    const size_t open = line.find('('), close = line.rfind(')');
    // After the name: state and 10 more fields, then user and system time in ticks.
    std::istringstream fields(line.substr(close + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    uses[id] = {line.substr(open + 1, close - open - 1), (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK))};
  }
  closedir(directory);
  return uses;
}

struct Nap {
  const char* waiting;  // who waits meanwhile
  std::map<int, ThreadUse> before = {}, after = {};
  double seconds = 0;
  int sleeper = 0;  // thread id
};

// What both devices share: the two naps, one after the other.
struct Naps {
  std::array<Nap, 2> naps = {
      {{.waiting = "the first stage waits for the last"}, {.waiting = "the last stage waits for the first"}}};
  std::atomic<int> num_done{0};
};

// Sleeps inside a loss, then, in another step or micro-batch, inside an embedding; only one device does either.
class SleepingObserver : public OperationObserver {
 public:
  explicit SleepingObserver(std::shared_ptr<Naps> naps) : naps_(std::move(naps)) {}

  void OnStart(OperationFamily family, const Matmul* /*matmul*/) override {
    if (family == OperationFamily::kEmbedding) ++num_embeddings_;
    if (family == OperationFamily::kLoss) ++num_losses_;
    // Not the first: by then everything has been made that a step needs.
    if (family == OperationFamily::kLoss && num_losses_ > kWarmUpOperations && naps_->num_done.load() == 0) Sleep(0);
    if (family == OperationFamily::kEmbedding && num_embeddings_ > kWarmUpOperations && naps_->num_done.load() == 1) {
      Sleep(1);
    }
  }
  void OnEnd(OperationFamily /*family*/) override {}

 private:
  static constexpr int kWarmUpOperations = 40;

  void Sleep(size_t index) {
    Nap& nap = naps_->naps[index];
    nap.sleeper = gettid();
    absl::SleepFor(kSettle);
    const absl::Time start = absl::Now();
    nap.before = ThreadUses();
    absl::SleepFor(kMeasured);
    nap.after = ThreadUses();
    nap.seconds = absl::ToDoubleSeconds(absl::Now() - start);
    naps_->num_done.fetch_add(1);
  }

  const std::shared_ptr<Naps> naps_;
  int num_embeddings_ = 0, num_losses_ = 0;
};

// The most that a thread uses, in percent of a core; over all threads.
double Print(const Nap& nap) {
  std::printf("%s (%.1f s)\n", nap.waiting, nap.seconds);
  double most = 0, sum = 0;
  for (const auto& [id, after] : nap.after) {
    const auto before = nap.before.find(id);
    if (before == nap.before.end() || id == nap.sleeper) continue;
    const double percent = 100 * (after.processor_seconds - before->second.processor_seconds) / nap.seconds;
    most = std::max(most, percent);
    sum += percent;
    std::printf("  %-16s %6.2f%%%s\n", after.name.c_str(), percent, id == getpid() ? " (this program's main)" : "");
  }
  std::printf("  %-16s %6.2f%%\n", "all threads", sum);
  return most;
}

}  // namespace

void PrintWaitingThreads(const v1::JobSpec& spec) {
  const auto naps = std::make_shared<Naps>();
  const DeviceFactory device =
      ObservedCpuDevices([&](Device& /*inner*/) { return std::make_unique<SleepingObserver>(naps); });
  TrainUntil(
      spec, /*num_workers=*/2, device, [](const v1::StepEvent&) { return true; },
      [&] { return naps->num_done.load() == static_cast<int>(naps->naps.size()); });
  double most = 0;
  for (const Nap& nap : naps->naps) most = std::max(most, Print(nap));
  std::printf("the busiest thread used %.2f%% of a core; the bar is under %.0f%%: %s\n", most, kBarPercent,
              most < kBarPercent ? "reached" : "missed");
}

}  // namespace stagecoach
