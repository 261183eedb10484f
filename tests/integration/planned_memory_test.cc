// What a worker allocates on its device is what the plan says, to the byte.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "tests/integration/embedded_job.h"
#include "worker/device/device.h"
#include "worker/registry/device/device_registry.h"

namespace stagecoach {
namespace {

constexpr size_t kPlannedHostBytes = 8192;

// Peak of the bytes allocated on each device. Thread-safe.
class AllocationLedger {
 public:
  void Add(const Device* device, size_t bytes) {
    MutexLock lock(mutex_);
    Account& account = accounts_[device];
    account.now += bytes;
    account.peak = std::max(account.peak, account.now);
  }
  void Remove(const Device* device, size_t bytes) {
    MutexLock lock(mutex_);
    accounts_[device].now -= bytes;
  }
  std::vector<uint64_t> SortedPeaks() {
    MutexLock lock(mutex_);
    std::vector<uint64_t> peaks;
    for (const auto& [device, account] : accounts_) peaks.push_back(account.peak);
    std::sort(peaks.begin(), peaks.end());
    return peaks;
  }

 private:
  struct Account {
    uint64_t now = 0, peak = 0;
  };
  Mutex mutex_;
  std::map<const Device*, Account> accounts_ ABSL_GUARDED_BY(mutex_);
};

class CountedMemory final : public Memory {
 public:
  CountedMemory(std::unique_ptr<Memory> memory, const Device* device, AllocationLedger& ledger)
      : memory_(std::move(memory)), device_(device), ledger_(ledger) {
    ledger_.Add(device_, memory_->bytes());
  }
  ~CountedMemory() override { ledger_.Remove(device_, memory_->bytes()); }
  std::byte* data() const override { return memory_->data(); }
  size_t bytes() const override { return memory_->bytes(); }

 private:
  const std::unique_ptr<Memory> memory_;
  const Device* const device_;
  AllocationLedger& ledger_;
};

class CountingDevice final : public Device {
 public:
  CountingDevice(std::unique_ptr<Device> device, AllocationLedger& ledger)
      : device_(std::move(device)), ledger_(ledger) {}

  const DeviceCapabilities& capabilities() const override { return device_->capabilities(); }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes, MemoryKind kind) override {
    absl::StatusOr<std::unique_ptr<Memory>> memory = device_->Allocate(bytes, kind);
    // Host memory for results (norms, the batch being read) is a few hundred bytes and not planned; a copy of the state
    // is.
    if (!memory.ok() || (kind != MemoryKind::kDevice && bytes < kPlannedHostBytes)) return memory;
    return std::make_unique<CountedMemory>(*std::move(memory), this, ledger_);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return device_->CreateStream(); }
  absl::StatusOr<EventRef> Record(Stream& stream) override { return device_->Record(stream); }
  absl::Status EnqueueWait(Stream& stream, const EventRef& event) override {
    return device_->EnqueueWait(stream, event);
  }
  absl::Status EnqueueCopy(Stream& stream, void* to, const void* from, size_t bytes) override {
    return device_->EnqueueCopy(stream, to, from, bytes);
  }
  absl::Status WaitComplete(const EventRef& event, absl::Duration timeout) override {
    return device_->WaitComplete(event, timeout);
  }
  TensorOperations& operations() override { return device_->operations(); }

 private:
  const std::unique_ptr<Device> device_;
  AllocationLedger& ledger_;
};

// Runs `job` and compares; the bytes of the copies that were planned.
void ExpectPlannedBytes(EmbeddedJob& job, uint32_t workers, uint64_t* snapshot_bytes = nullptr) {
  // Measuring layers has a device of its own, before there is a plan.
  job.spec().mutable_parallelism()->set_costs("analytic");
  AllocationLedger ledger;
  const DeviceFactory cpu = *FindDevice("cpu");
  const EmbeddedJob::Result result =
      job.Run(workers, [&](const DeviceOptions& options) -> absl::StatusOr<std::unique_ptr<Device>> {
        absl::StatusOr<std::unique_ptr<Device>> device = cpu(options);
        if (!device.ok()) return device.status();
        return std::make_unique<CountingDevice>(*std::move(device), ledger);
      });
  ASSERT_EQ(result.job.status().state(), v1::JOB_STATE_SUCCEEDED) << result.job.status().message();
  std::vector<uint64_t> planned(workers);
  for (const v1::StagePlan& stage : result.job.plan().stages()) {
    planned[stage.worker_rank()] += stage.memory_bytes().total();
    if (snapshot_bytes != nullptr) *snapshot_bytes += stage.memory_bytes().snapshot();
  }
  std::sort(planned.begin(), planned.end());
  EXPECT_EQ(ledger.SortedPeaks(), planned);
}

TEST(PlannedMemoryTest, AllocationsOfEveryStageAreThePlannedBytes) {
  for (const bool tied : {false, true}) {
    for (const char* optimizer : {"adamw", "sgd"}) {
      SCOPED_TRACE(testing::Message() << optimizer << (tied ? " tied" : " untied"));
      EmbeddedJob job;
      job.spec().mutable_training()->set_steps(3);
      job.spec().mutable_model()->mutable_config()->set_tie_word_embeddings(tied);
      job.spec().mutable_optimizer()->set_name(optimizer);
      ExpectPlannedBytes(job, 3);
    }
  }
}

TEST(PlannedMemoryTest, StagesOfOneWorkerAreAllocatedAsPlanned) {
  for (const char* schedule : {"interleaved", "zb_v"}) {
    SCOPED_TRACE(schedule);
    EmbeddedJob job;
    job.spec().mutable_training()->set_steps(3);
    job.spec().mutable_model()->mutable_config()->set_tie_word_embeddings(true);
    job.spec().mutable_parallelism()->set_schedule(schedule);
    job.spec().mutable_parallelism()->set_virtual_stages(2);
    job.AddValidation(/*interval=*/1);
    ExpectPlannedBytes(job, 2);
  }
}

TEST(PlannedMemoryTest, RecomputationIsAllocatedAsPlanned) {
  struct Case {
    const char* schedule;
    uint32_t workers, chunks;
  };
  for (const Case& c :
       {Case{"gpipe", 1, 1}, {"1f1b", 3, 1}, {"zb_h1", 3, 1}, {"interleaved", 2, 2}, {"v_half", 2, 2}}) {
    SCOPED_TRACE(c.schedule);
    EmbeddedJob job;
    job.spec().mutable_training()->set_steps(3);
    job.spec().mutable_parallelism()->set_schedule(c.schedule);
    job.spec().mutable_parallelism()->set_virtual_stages(c.chunks);
    job.spec().mutable_parallelism()->set_activation_checkpointing("full");
    job.AddValidation(/*interval=*/1);
    ExpectPlannedBytes(job, c.workers);
  }
}

TEST(PlannedMemoryTest, FrozenLayersAreAllocatedAsPlanned) {
  struct Case {
    const char* schedule;
    uint32_t workers, chunks;
    const char* recomputation;
    bool tied;
    std::vector<const char*> frozen;
  };
  for (const Case& c : {Case{"1f1b", 3, 1, "none", false, {"transformer.wte", "transformer.h.0"}},
                        {"gpipe", 1, 1, "full", false, {"transformer.wte", "transformer.h.0", "transformer.h.2"}},
                        {"zb_h1", 3, 1, "full", false, {"transformer.h.3", "transformer.ln_f", "lm_head"}},
                        {"interleaved", 2, 2, "none", true, {"transformer.wte", "transformer.h.1", "lm_head"}},
                        {"v_half", 2, 2, "full", true, {"transformer.h.1", "transformer.h.2"}},
                        {"1f1b",
                         2,
                         1,
                         "none",
                         false,
                         {"transformer.wte", "transformer.h.0", "transformer.h.1", "transformer.h.2", "transformer.h.3",
                          "transformer.ln_f"}}}) {
    SCOPED_TRACE(testing::Message() << c.schedule << " " << testing::PrintToString(c.frozen));
    EmbeddedJob job;
    job.spec().mutable_training()->set_steps(3);
    job.spec().mutable_model()->mutable_config()->set_tie_word_embeddings(c.tied);
    for (const char* layer : c.frozen) job.spec().mutable_model()->add_frozen_layers(layer);
    job.spec().mutable_parallelism()->set_schedule(c.schedule);
    job.spec().mutable_parallelism()->set_virtual_stages(c.chunks);
    job.spec().mutable_parallelism()->set_activation_checkpointing(c.recomputation);
    job.spec().mutable_checkpoint()->set_async(true);
    job.spec().mutable_checkpoint()->set_interval_steps(2);
    job.AddValidation(/*interval=*/1);
    ExpectPlannedBytes(job, c.workers);
  }
}

TEST(PlannedMemoryTest, SkipConnectionsAreAllocatedAsPlanned) {
  struct Case {
    const char* schedule;
    uint32_t workers, chunks;
    const char* recomputation = "none";
    std::vector<const char*> frozen = {};
  };
  for (const Case& c : {Case{"gpipe", 1, 1, "full"},
                        {"1f1b", 3, 1},
                        {"zb_h1", 3, 1, "full"},
                        {"interleaved", 2, 2},
                        {"v_half", 2, 2, "full"},
                        {"1f1b", 3, 1, "none", {"transformer.wte", "transformer.h.0"}}}) {
    SCOPED_TRACE(testing::Message() << c.schedule << " on " << c.workers << " " << testing::PrintToString(c.frozen));
    EmbeddedJob job;
    job.spec().mutable_training()->set_steps(3);
    job.spec().mutable_model()->mutable_config()->set_tie_word_embeddings(c.frozen.empty());
    for (const char* layer : c.frozen) job.spec().mutable_model()->add_frozen_layers(layer);
    for (const auto& [from, to] : {std::pair("transformer.wte", "transformer.h.3"),
                                   {"transformer.h.0", "transformer.h.2"},
                                   {"transformer.h.1", "transformer.ln_f"}}) {
      v1::SkipConnectionSpec& skip = *job.spec().mutable_model()->add_skip_connections();
      skip.set_from(from);
      skip.set_to(to);
    }
    job.spec().mutable_parallelism()->set_schedule(c.schedule);
    job.spec().mutable_parallelism()->set_virtual_stages(c.chunks);
    job.spec().mutable_parallelism()->set_activation_checkpointing(c.recomputation);
    job.AddValidation(/*interval=*/1);
    ExpectPlannedBytes(job, c.workers);
  }
}

TEST(PlannedMemoryTest, ACopyOfTheStateIsPlannedToo) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "untied");
    EmbeddedJob job;
    job.spec().mutable_training()->set_steps(3);
    job.spec().mutable_model()->mutable_config()->set_tie_word_embeddings(tied);
    job.spec().mutable_checkpoint()->set_async(true);
    job.spec().mutable_checkpoint()->set_interval_steps(2);
    uint64_t snapshot_bytes = 0;
    ExpectPlannedBytes(job, 3, &snapshot_bytes);
    EXPECT_GT(snapshot_bytes, 3 * kPlannedHostBytes);
  }
}

}  // namespace
}  // namespace stagecoach
