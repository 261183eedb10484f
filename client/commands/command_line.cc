#include "client/commands/command_line.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "CLI/CLI.hpp"
#include "client/commands/command.h"
#include "client/commands/completion.h"
#include "client/commands/output_arguments.h"
#include "client/commands/suggestions.h"
#include "client/output/exit_codes.h"

namespace stagecoach {
namespace {

// Examples, which AddVerb has put where CLI11 keeps what it prints last, come first.
class ExamplesFirst final : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    return app->get_footer().empty() ? CLI::Formatter::make_description(app)
                                     : app->get_footer() + "\n\n" + CLI::Formatter::make_description(app);
  }
  std::string make_footer(const CLI::App*) const override { return ""; }
};

constexpr char kExamples[] =
    "  stagecoach train examples/tiny.yaml --workers 4     # one job, here and now\n"
    "  stagecoach up --workers 4 -d                        # a local cluster that stays\n"
    "  stagecoach submit examples/tiny.yaml --follow\n"
    "  stagecoach get jobs";

void AddVerbs(CLI::App& app, Invocation& invocation) {
  AddTrain(app, invocation);
  AddUp(app, invocation);
  AddDown(app, invocation);
  AddSubmit(app, invocation);
  AddGet(app, invocation);
  AddDescribe(app, invocation);
  AddLogs(app, invocation);
  AddEvents(app, invocation);
  AddWait(app, invocation);
  AddTrace(app, invocation);
  AddChanges(app, invocation);
  AddValidate(app, invocation);
  AddPlan(app, invocation);
  AddSchedule(app, invocation);
  AddCheckpoint(app, invocation);
  AddConfig(app, invocation);
  AddCompletion(app, invocation);
  AddVersion(app, invocation);
}

// CLI11 knows many failures; scripts get one code for "the command line is wrong".
int ReportParseError(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {  // --help
    app.exit(error, std::cout, std::cerr);
    return kExitOk;
  }
  const WrongWord wrong = FindWrongWord(app, arguments);
  if (arguments.empty()) {
    std::cerr << app.help();
  } else {
    std::cerr << "stagecoach: " << (wrong.message.empty() ? error.what() : wrong.message) << "\n"
              << "see " << wrong.verb << " --help\n";
  }
  return kExitUsage;
}

}  // namespace

CLI::App* AddVerb(CLI::App& parent, const std::string& name, const std::string& summary, const std::string& examples) {
  CLI::App* verb = parent.add_subcommand(name, summary);
  verb->footer(examples);
  return verb;
}

int RunCommandLine(const std::vector<std::string>& arguments) {
  CLI::App app("Stagecoach trains models through a pipeline of workers.", "stagecoach");
  app.footer(kExamples);
  app.formatter(std::make_shared<ExamplesFirst>());
  app.require_subcommand(1);
  Invocation invocation;
  AddVerbs(app, invocation);
  if (!arguments.empty() && arguments.front() == kCompleteVerb) {
    const bool separated = arguments.size() > 1 && arguments[1] == "--";
    return PrintCompletions(app, {arguments.begin() + (separated ? 2 : 1), arguments.end()});
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error, arguments);
  }
  if (const absl::Status status = CheckOutputEnvironment(); !status.ok()) {
    std::cerr << "stagecoach: " << status.message() << "\n";
    return kExitUsage;
  }
  const int code = invocation.run();
  std::cout.flush();
  if (code != kExitOk || std::cout.good()) return code;
  std::cerr << "stagecoach: standard output could not be written\n";
  return kExitError;
}

}  // namespace stagecoach
