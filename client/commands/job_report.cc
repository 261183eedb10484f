#include "client/commands/job_report.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/coordinator_client/enum_text.h"
#include "client/output/job_view.h"
#include "client/output/json.h"

namespace stagecoach {
namespace {

constexpr double kPaceWeight = 0.1;  // of the newest step

// 41,233
std::string WithSeparators(uint64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

}  // namespace

std::string FormatProgress(const v1::StepEvent& step, uint64_t num_steps, absl::Duration eta) {
  std::string line = absl::StrFormat("step: %d/%d  loss: %.4f", step.step(), num_steps, step.loss());
  if (step.has_validation_loss())
    absl::StrAppend(&line, absl::StrFormat("  validation_loss: %.4f", step.validation_loss()));
  absl::StrAppend(&line,
                  absl::StrFormat("  grad_norm: %.4f  lr: %.2e  tokens/s: %s  bubble: %.1f%%", step.grad_norm(),
                                  step.learning_rate(), WithSeparators(static_cast<uint64_t>(step.tokens_per_second())),
                                  step.bubble_ratio() * 100));
  if (step.skipped()) absl::StrAppend(&line, "  SKIPPED: gradients were not finite");
  absl::StrAppend(&line, "  eta: ", absl::FormatDuration(absl::Trunc(eta, absl::Seconds(1))));
  return line;
}

JobReport::JobReport(Format format, uint64_t num_steps, uint64_t log_interval)
    : format_(format), num_steps_(num_steps), log_interval_(log_interval), terminal_(isatty(STDERR_FILENO) == 1) {}

void JobReport::OnStatus(const v1::JobStatus& status) {
  if (status.state() == last_state_) return;
  last_state_ = status.state();
  EndLine();
  std::cerr << EnumText(status.state());
  if (!status.message().empty()) std::cerr << ": " << Printable(status.message());
  std::cerr << "\n";
  if (status.has_root_cause()) std::cerr << "root cause: " << Printable(RootCauseText(status)) << "\n";
}

void JobReport::OnNote(const std::string& note) {
  EndLine();
  std::cerr << note << "\n";
}

void JobReport::EndLine() {
  if (line_open_) std::cerr << "\n";
  line_open_ = false;
}

void JobReport::UpdateEta(const v1::StepEvent& step) {
  mean_step_seconds_ = mean_step_seconds_ == 0
                           ? step.step_seconds()
                           : (1 - kPaceWeight) * mean_step_seconds_ + kPaceWeight * step.step_seconds();
}

void JobReport::OnStep(const v1::StepEvent& step) {
  if (format_ == Format::kStatesOnly) return;
  UpdateEta(step);
  if (format_ == Format::kJsonLines) {
    std::cout << PrintJsonText(StepJson(step), JsonForm::kOneLine) << "\n" << std::flush;
    return;
  }
  const absl::Duration eta =
      absl::Seconds(mean_step_seconds_ * static_cast<double>(num_steps_ - std::min(num_steps_, step.step())));
  const std::string line = FormatProgress(step, num_steps_, eta);
  const bool keep = step.step() == 1 || step.step() == num_steps_ || step.has_validation_loss() || step.skipped() ||
                    (log_interval_ > 0 && step.step() % log_interval_ == 0);
  if (terminal_) {
    std::cerr << "\r\033[K" << line << (keep ? "\n" : "") << std::flush;
    line_open_ = !keep;
  } else if (keep) {
    std::cerr << line << "\n";
  }
}

void JobReport::OnEnd(const v1::Job& job) {
  EndLine();
  if (format_ == Format::kStatesOnly) return;
  const v1::JobStatus& status = job.status();
  if (format_ == Format::kJsonLines) {
    const Json last = {{"name", status.job()},      {"state", EnumText(status.state())},
                       {"reason", status.reason()}, {"message", status.message()},
                       {"step", status.step()},     {"checkpoint", job.checkpoint_directory()},
                       {"digest", job.digest()},    {"state_digest", job.state_digest()}};
    std::cout << PrintJsonText(last, JsonForm::kOneLine) << "\n" << std::flush;
    return;
  }
  std::cout << "state:        " << EnumText(status.state()) << (status.reason().empty() ? "" : " ") << status.reason()
            << "\n";
  std::cout << "step:         " << status.step() << "\n";
  if (!job.checkpoint_directory().empty()) {
    std::cout << "checkpoint:   " << job.checkpoint_directory() << "\n";
    std::cout << "digest:       " << job.digest() << "\n";
    std::cout << "state_digest: " << job.state_digest() << "\n";
  }
  std::cout << std::flush;
}

}  // namespace stagecoach
