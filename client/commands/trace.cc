#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/trace/collected_trace.h"
#include "common/quoted.h"
#include "common/trace/chrome_trace.h"
#include "common/trace/clock_alignment.h"
#include "common/trace/trace_text.h"

namespace stagecoach {
namespace {

constexpr uint32_t kDefaultSteps = 3;
constexpr int kDefaultColumns = 100;
// The coordinator waits 5 s for workers; the rest is for a large timeline over a slow network.
constexpr absl::Duration kReadTimeout = absl::Minutes(1);

struct TraceArguments {
  std::string job;
  std::optional<uint32_t> steps;
  std::string file;  // empty: standard output
  ServerArguments server;
  OutputArguments output;

  bool draws() const { return output.format == "text"; }
};

int TerminalColumns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kDefaultColumns;
}

void Print(const PipelineTrace& trace, const TraceArguments& arguments, std::ostream& out) {
  if (!arguments.draws()) return WriteChromeTrace(trace, out);
  const bool is_file = !arguments.file.empty();
  out << DrawTrace(trace, {.columns = is_file ? kDefaultColumns : TerminalColumns(),
                           .colour = !is_file && arguments.output.colour()});
}

absl::Status WriteToFile(const PipelineTrace& trace, const TraceArguments& arguments) {
  std::ofstream file(arguments.file, std::ios::binary | std::ios::trunc);
  if (file) Print(trace, arguments, file);
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(Quoted(arguments.file), " cannot be written: ", std::strerror(errno)));
}

std::string StepsText(const PipelineTrace& trace) {
  const uint64_t first = trace.steps.front().step, last = trace.steps.back().step;
  return first == last ? absl::StrCat("step ", first) : absl::StrCat("steps ", first, " to ", last);
}

absl::Status NothingKept(const PipelineTrace& trace) {
  std::string why = absl::StrCat("there is no timeline of job ", trace.name);
  for (const std::string& note : trace.notes) absl::StrAppend(&why, "; ", note);
  return absl::FailedPreconditionError(why);
}

Outcome ShowTrace(CoordinatorClient& client, const TraceArguments& arguments) {
  // Made again while the coordinator is away, unlike the call below.
  if (const absl::StatusOr<v1::Job> job = client.GetJob(arguments.job); !job.ok()) return job.status();
  v1::ReadTraceRequest request;
  request.set_job(arguments.job);
  request.set_steps(arguments.steps.value_or(arguments.draws() ? 1 : kDefaultSteps));
  MessageStream<v1::TraceChunk> call(client.ReadTrace(request));
  const absl::StatusOr<CollectedTrace> collected = CollectTrace(call, kReadTimeout);
  if (!collected.ok()) return collected.status();
  PipelineTrace trace = BuildTrace(*collected, request.steps());
  AlignClocks(trace);
  if (trace.spans.empty()) return NothingKept(trace);
  for (const std::string& note : trace.notes) std::cerr << "stagecoach: warning: " << note << "\n";
  if (arguments.file.empty()) {
    Print(trace, arguments, std::cout);
    return kExitOk;
  }
  if (const absl::Status written = WriteToFile(trace, arguments); !written.ok()) return written;
  std::cerr << arguments.file << ": " << StepsText(trace) << " of job " << trace.name
            << (arguments.draws() ? "\n" : "; open it at https://ui.perfetto.dev\n");
  return kExitOk;
}

}  // namespace

void AddTrace(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<TraceArguments>();
  CLI::App* verb =
      AddVerb(root, "trace", "the timeline of a job's last steps, for Perfetto or drawn here",
              "  stagecoach trace JOB --steps 3 --output trace.json   # open it at https://ui.perfetto.dev\n"
              "  stagecoach trace JOB -o text                         # the last step, one line a stage");
  verb->add_option("job", arguments->job)->required()->type_name("JOB");
  verb->add_option("--steps", arguments->steps, "the last so many; default: 3, and 1 with -o text")
      ->check(CLI::Range(1, 1'000'000));
  verb->add_option("--output", arguments->file, "write it there, instead of standard output")->type_name("FILE");
  AddServerOptions(*verb, arguments->server);
  AddFormatOption(*verb, arguments->output, {"trace", "text"}, "-o");
  verb->add_option("--color", arguments->output.color, "auto: at a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
  verb->callback([&invocation, arguments] {
    invocation.run = [arguments] {
      return AskCoordinator(arguments->server, arguments->output,
                            [&](CoordinatorClient& client) { return ShowTrace(client, *arguments); });
    };
  });
}

}  // namespace stagecoach
