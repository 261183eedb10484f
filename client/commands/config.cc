#include <iostream>
#include <memory>

#include "client/commands/command.h"
#include "client/commands/output_arguments.h"
#include "client/contexts/context_file.h"
#include "client/contexts/settings.h"
#include "client/output/error_report.h"
#include "common/quoted.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

struct ConfigArguments {
  SettingFlags flags;
  std::string context;
  bool show_origin = false;
  OutputArguments output;
};

// Settings are usage: whatever is wrong with them, exit code 2.
int Report(const absl::Status& status, const OutputArguments& output) {
  if (status.ok()) return kExitOk;
  return ReportFailure({.code = kExitUsage, .status = status}, {.json = output.is_json()});
}

absl::Status GetContexts(const ConfigArguments& arguments) {
  const Environment environment = ProcessEnvironment();
  STAGECOACH_ASSIGN_OR_RETURN(const Setting path, ConfigPath(environment));
  STAGECOACH_ASSIGN_OR_RETURN(ContextFile file, LoadContexts(path.value));
  const absl::StatusOr<std::string> state_dir = DefaultStateDir(environment);
  if (file.Find(kLocalContext) == nullptr && state_dir.ok()) {
    file.Put({.name = kLocalContext, .address = LocalAddress(*state_dir), .state_dir = *state_dir});
  }
  const std::string current = file.current.empty() ? kLocalContext : file.current;
  Listing listing{.key = "contexts", .table = Table({"CURRENT", "NAME", "ADDRESS", "STATE-DIR"})};
  for (const Context& context : file.contexts) {
    const bool is_current = context.name == current;
    listing.names.push_back(context.name);
    listing.items.push_back({{"name", context.name},
                             {"address", context.address},
                             {"state_dir", context.state_dir},
                             {"current", is_current}});
    listing.table.AddRow({is_current ? "*" : "", context.name, context.address, context.state_dir});
  }
  PrintListing(listing, arguments.output);
  return absl::OkStatus();
}

absl::Status UseContext(const ConfigArguments& arguments) {
  STAGECOACH_ASSIGN_OR_RETURN(const Setting path, ConfigPath(ProcessEnvironment()));
  return UpdateContexts(path.value, [&](ContextFile& file) {
    if (file.Find(arguments.context) == nullptr && arguments.context != kLocalContext) {
      return absl::NotFoundError("no context " + Quoted(arguments.context) + " in " + path.value +
                                 "; see: stagecoach config get-contexts");
    }
    file.current = arguments.context;
    return absl::OkStatus();
  });
}

absl::Status View(const ConfigArguments& arguments) {
  const Environment environment = ProcessEnvironment();
  STAGECOACH_ASSIGN_OR_RETURN(const Settings settings, ResolveSettings(arguments.flags, environment));
  const std::optional<std::string> output = environment("STAGECOACH_OUTPUT");
  const std::vector<std::pair<std::string, Setting>> all = {
      {"config", settings.config},
      {"context", settings.context},
      {"address", settings.address},
      {"state_dir", settings.state_dir},
      {"output", output ? Setting{*output, "STAGECOACH_OUTPUT"} : Setting{"", kBuiltIn}},
      {"color", environment("NO_COLOR") ? Setting{"never", "NO_COLOR"} : Setting{"auto", kBuiltIn}}};
  std::vector<std::string> headers = {"SETTING", "VALUE"};
  if (arguments.show_origin) headers.push_back("ORIGIN");
  Table table(headers);
  Json object;
  for (const auto& [name, setting] : all) {
    std::vector<Cell> row = {name, setting.value};
    if (arguments.show_origin) row.push_back(setting.origin);
    table.AddRow(std::move(row));
    object[name] =
        arguments.show_origin ? Json{{"value", setting.value}, {"origin", setting.origin}} : Json(setting.value);
  }
  if (arguments.output.format == "table") {
    std::cout << table.Text(arguments.output.style());
  } else {
    PrintObject(object, arguments.output.format);
  }
  return absl::OkStatus();
}

CLI::App* AddConfigVerb(CLI::App& parent, Invocation& invocation, const std::string& name, const std::string& summary,
                        const std::string& examples, absl::Status (*run)(const ConfigArguments&),
                        const std::shared_ptr<ConfigArguments>& arguments) {
  CLI::App* verb = AddVerb(parent, name, summary, examples);
  verb->callback([&invocation, arguments, run] {
    invocation.run = [arguments, run] { return Report(run(*arguments), arguments->output); };
  });
  return verb;
}

}  // namespace

void AddConfig(CLI::App& root, Invocation& invocation) {
  CLI::App* config = AddVerb(root, "config", "contexts: which coordinator is meant",
                             "  stagecoach config get-contexts\n"
                             "  stagecoach config use-context local\n"
                             "  stagecoach config view --show-origin");
  config->require_subcommand(1);

  auto list = std::make_shared<ConfigArguments>();
  AddTableOptions(*AddConfigVerb(*config, invocation, "get-contexts", "coordinators that have a name",
                                 "  stagecoach config get-contexts", GetContexts, list),
                  list->output, {"table", "json", "yaml", "name", "jsonl"});

  auto use = std::make_shared<ConfigArguments>();
  AddConfigVerb(*config, invocation, "use-context", "make a context the current one",
                "  stagecoach config use-context local", UseContext, use)
      ->add_option("name", use->context)
      ->required()
      ->type_name("CONTEXT");

  auto view = std::make_shared<ConfigArguments>();
  CLI::App* verb = AddConfigVerb(*config, invocation, "view", "the settings that count here",
                                 "  stagecoach config view --show-origin", View, view);
  verb->add_flag("--show-origin", view->show_origin, "and where each came from");
  verb->add_option("--context", view->flags.context, "as other verbs would be given it")->type_name("CONTEXT");
  verb->add_option("--address", view->flags.address, "likewise")->type_name("ADDRESS");
  AddTableOptions(*verb, view->output, {"table", "json", "yaml"});
}

}  // namespace stagecoach
