#include "client/commands/interrupts.h"

namespace stagecoach {
namespace {

volatile std::sig_atomic_t interrupts = 0;

void OnSignal(int) { interrupts = interrupts + 1; }

}  // namespace

Interrupts::Interrupts(Second second) {
  interrupts = 0;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;  // writes to standard output go on
  if (second == Second::kEndsProcess) action.sa_flags |= static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    const bool nohup = kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN;
    if (!nohup) sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int Interrupts::count() const { return interrupts; }

}  // namespace stagecoach
