#include "coordinator/service/stream_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach {

StreamRegistry::StreamRegistry(size_t max_streams, absl::Duration check_interval)
    : max_streams_(max_streams), check_interval_(check_interval), thread_("streams", [this] { Loop(); }) {}

StreamRegistry::~StreamRegistry() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
}

absl::Status StreamRegistry::Add(std::shared_ptr<ServiceStream> stream) {
  MutexLock lock(mutex_);
  const ServiceStream* const key = stream.get();
  streams_.emplace(key, std::move(stream));
  if (!closed_.ok()) return closed_;
  if (streams_.size() <= max_streams_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the coordinator has ", max_streams_, " streams, which is its limit"));
}

void StreamRegistry::Remove(const ServiceStream* stream) {
  std::shared_ptr<ServiceStream> removed;  // destroyed without the lock
  MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  removed = std::move(found->second);
  streams_.erase(found);
  changed_.NotifyAll();
}

void StreamRegistry::EndAll(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    closed_ = status;
  }
  for (const auto& stream : Streams()) stream->End(status);
}

bool StreamRegistry::WaitUntilEmpty(absl::Duration timeout) {
  const auto deadline = DeadlineIn(timeout);
  MutexLock lock(mutex_);
  while (!streams_.empty()) {
    if (!changed_.WaitUntil(mutex_, deadline)) return streams_.empty();
  }
  return true;
}

std::vector<std::shared_ptr<ServiceStream>> StreamRegistry::Streams() const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<ServiceStream>> streams;
  for (const auto& [key, stream] : streams_) streams.push_back(stream);
  return streams;
}

void StreamRegistry::Loop() {
  while (true) {
    {
      const auto deadline = DeadlineIn(check_interval_);
      MutexLock lock(mutex_);
      while (!stopping_ && changed_.WaitUntil(mutex_, deadline)) {
      }
      if (stopping_) return;
    }
    for (const auto& stream : Streams()) stream->Check();
  }
}

}  // namespace stagecoach
