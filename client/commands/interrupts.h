#ifndef STAGECOACH_CLIENT_COMMANDS_INTERRUPTS_H_
#define STAGECOACH_CLIENT_COMMANDS_INTERRUPTS_H_

#include <array>
#include <csignal>

namespace stagecoach {

// Counts SIGINT, SIGTERM and SIGHUP from its construction on, instead of their ending the process; a SIGHUP that nohup
// has taken away stays away. One at a time.
class Interrupts {
 public:
  // What a second signal of the same kind does: nothing more than count, or end the process, whatever it may be waiting
  // for.
  enum class Second { kCounts, kEndsProcess };
  explicit Interrupts(Second second);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int count() const;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_INTERRUPTS_H_
