#ifndef STAGECOACH_CLIENT_COMMANDS_JOB_REPORT_H_
#define STAGECOACH_CLIENT_COMMANDS_JOB_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Shows a job while it goes on. Used by one thread.
class JobReport {
 public:
  enum class Format { kText, kJsonLines, kStatesOnly };

  // Changes of state go to standard error in every form, and kStatesOnly shows nothing else. In text form, progress
  // goes to standard error: a line that overwrites itself on a terminal, else a line every `log_interval` steps (and
  // the first, the last, and each with a validation loss).
  JobReport(Format format, uint64_t num_steps, uint64_t log_interval);

  void OnStatus(const v1::JobStatus& status);
  void OnStep(const v1::StepEvent& step);
  // Anything else that people should know, on a line of its own.
  void OnNote(const std::string& note);
  // The last lines or object, to standard output.
  void OnEnd(const v1::Job& job);

 private:
  void EndLine();
  void UpdateEta(const v1::StepEvent& step);

  const Format format_;
  const uint64_t num_steps_;
  const uint64_t log_interval_;
  const bool terminal_;
  v1::JobState last_state_ = v1::JOB_STATE_UNSPECIFIED;
  double mean_step_seconds_ = 0;  // exponentially weighted, so that a change of pace shows
  bool line_open_ = false;        // a progress line without its end is on the terminal
};

// "step: 120/1000  loss: 3.1234  grad_norm: 0.98  lr: 2.98e-04  tokens/s: 41,233  bubble: 11.4%  eta: 12m" - for tests.
std::string FormatProgress(const v1::StepEvent& step, uint64_t num_steps, absl::Duration eta);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_JOB_REPORT_H_
