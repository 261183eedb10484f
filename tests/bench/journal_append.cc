// How long one append to the coordinator's journal takes. A buffered append (a CommitRecord) is on the path of every
// step; a synced one is on that of what happens rarely, and is the disk's time.
//
//   journal_append [--directory DIR] [--entries 20000] [--synced 200]
//
// Prints median, 99th percentile and maximum in microseconds. Appends are 1 ms apart, as those of steps are: the caches
// are as cold as they will be.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/check.h"
#include "coordinator/journal/sqlite_store.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

constexpr std::chrono::milliseconds kPause{1};

v1::JournalEntry Commit(uint64_t step) {
  v1::JournalEntry entry;
  entry.set_sequence(step);
  entry.set_coordinator_term(1);
  v1::StepCommitted& committed = *entry.mutable_step_committed();
  committed.set_job("gpt2-124m");
  committed.set_epoch(1);
  v1::CommitRecord& record = *committed.mutable_record();
  record.set_step(step);
  record.set_verdict(v1::VERDICT_APPLY);
  for (const auto set :
       {&v1::CommitRecord::set_clip_factor, &v1::CommitRecord::set_learning_rate, &v1::CommitRecord::set_loss_scale,
        &v1::CommitRecord::set_next_loss_scale, &v1::CommitRecord::set_loss, &v1::CommitRecord::set_grad_norm}) {
    (record.*set)(0.1);
  }
  committed.mutable_event()->set_step(step);
  committed.mutable_event()->set_tokens_per_second(1e5);
  for (int stage = 0; stage < 4; ++stage) committed.mutable_event()->add_stage_utilization(0.9);
  return entry;
}

void Measure(SqliteStore& store, const char* name, SyncMode sync, uint64_t first, uint64_t count) {
  std::vector<double> microseconds;
  for (uint64_t i = 0; i < count; ++i) {
    const v1::JournalEntry entry = Commit(first + i);
    std::this_thread::sleep_for(kPause);
    const auto start = std::chrono::steady_clock::now();
    STAGECOACH_CHECK(store.Append(entry, sync).ok());
    microseconds.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(microseconds.begin(), microseconds.end());
  std::printf("%-9s %6zu appends  median %7.1f us  p99 %7.1f us  max %8.1f us\n", name, microseconds.size(),
              microseconds[microseconds.size() / 2], microseconds[microseconds.size() * 99 / 100], microseconds.back());
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) {
  CLI::App app("latency of appends to the coordinator's journal");
  const stagecoach::TemporaryDirectory temporary;
  std::string directory = temporary.path();
  uint64_t entries = 20000;
  uint64_t synced = 200;
  app.add_option("--directory", directory, "where the journal is made; default: a temporary one");
  app.add_option("--entries", entries, "buffered appends")->check(CLI::PositiveNumber);
  app.add_option("--synced", synced, "synced appends")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  stagecoach::SqliteStore store(directory + "/journal.sqlite");
  if (const absl::Status status = store.Lock(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  stagecoach::Measure(store, "buffered", stagecoach::SyncMode::kBuffered, 1, entries);
  stagecoach::Measure(store, "synced", stagecoach::SyncMode::kSynced, entries + 1, synced);
  return 0;
}
