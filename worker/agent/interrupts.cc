#include "worker/agent/interrupts.h"

#include <algorithm>
#include <utility>

namespace stagecoach {

void Interrupts::Interrupt(uint64_t generation, const absl::Status& reason) {
  MutexLock lock(mutex_);
  if (generation < generation_) return;
  generation_ = generation;
  reason_ = reason;
  for (const Registration* registration : registrations_) {
    if (registration->generation_ <= generation) registration->handler_(reason);
  }
}

void Interrupts::SetLeaseEnd(absl::Duration end) {
  MutexLock lock(mutex_);
  lease_end_ = end;
}

absl::Status Interrupts::Check(uint64_t generation) const {
  const absl::Duration now = clock_.Now();
  MutexLock lock(mutex_);
  if (!reason_.ok() && generation <= generation_) return reason_;
  return now < lease_end_ ? absl::OkStatus() : absl::AbortedError("the worker's lease is over");
}

Interrupts::Registration::Registration(Interrupts& interrupts, uint64_t generation, Handler handler)
    : interrupts_(interrupts), generation_(generation), handler_(std::move(handler)) {
  MutexLock lock(interrupts_.mutex_);
  interrupts_.registrations_.push_back(this);
  if (!interrupts_.reason_.ok() && generation_ <= interrupts_.generation_) handler_(interrupts_.reason_);
}

Interrupts::Registration::~Registration() {
  MutexLock lock(interrupts_.mutex_);
  auto& all = interrupts_.registrations_;
  all.erase(std::find(all.begin(), all.end(), this));
}

}  // namespace stagecoach
