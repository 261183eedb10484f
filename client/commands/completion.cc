#include "client/commands/completion.h"

#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "client/commands/command.h"
#include "client/commands/completion_scripts.h"
#include "client/commands/suggestions.h"
#include "client/contexts/context_file.h"
#include "client/contexts/settings.h"
#include "client/coordinator_client/coordinator_client.h"
#include "client/output/exit_codes.h"

namespace stagecoach {
namespace {

// From how the help shows an option's value: "FORMAT:{table,json}", "running|terminal", "JOB", "FILE".
std::vector<std::string> ValuesOf(const std::string& type, const std::vector<std::string>& words,
                                  const NamesOf& names_of) {
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open != std::string::npos && close != std::string::npos) {
    return absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
  }
  if (absl::StrContains(type, '|')) return absl::StrSplit(type, '|');
  if (type == "FILE" || type == "DIR") return {kCompleteFiles};
  return names_of(type, words);
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<std::string> OptionsOf(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The positional argument that stands after these words of the verb.
const CLI::Option* NextPositional(const CLI::App& verb, const std::vector<std::string>& words, size_t first) {
  size_t number = 0;
  for (size_t i = first; i < words.size(); ++i) {
    if (!absl::StartsWith(words[i], "-") || words[i] == "-") {
      ++number;
    } else if (const CLI::Option* option = verb.get_option_no_throw(words[i]); option && TakesValue(*option)) {
      ++i;
    }
  }
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_positional() && number-- == 0) return option;
  }
  return nullptr;
}

std::vector<std::string> Candidates(const CLI::App& root, std::vector<std::string> words, const std::string& current,
                                    const NamesOf& names_of) {
  const VerbPath path = FindVerb(root, words);
  if (!words.empty() && words.back() == "=") words.pop_back();  // bash splits --for=step=1 there
  if (words.size() > path.num_words) {
    const CLI::Option* option = path.verb->get_option_no_throw(words.back());
    if (option != nullptr && !option->get_positional() && TakesValue(*option)) {
      return ValuesOf(option->get_type_name(), words, names_of);
    }
  }
  if (absl::StartsWith(current, "-")) return OptionsOf(*path.verb);
  std::vector<std::string> verbs;
  for (const CLI::App* verb : VisibleVerbs(*path.verb)) verbs.push_back(verb->get_name());
  if (!verbs.empty()) return verbs;
  const CLI::Option* positional = NextPositional(*path.verb, words, path.num_words);
  return positional == nullptr ? std::vector<std::string>{} : ValuesOf(positional->get_type_name(), words, names_of);
}

std::string ValueOf(const std::vector<std::string>& words, const std::string& option) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 1 < words.size()) return words[i + 1];
    if (absl::StartsWith(words[i], option + "=")) return words[i].substr(option.size() + 1);
  }
  return "";
}

std::vector<std::string> ContextNames() {
  std::vector<std::string> names = {kLocalContext};
  const absl::StatusOr<Setting> path = ConfigPath(ProcessEnvironment());
  const absl::StatusOr<ContextFile> file = path.ok() ? LoadContexts(path->value) : path.status();
  if (!file.ok()) return names;
  for (const Context& context : file->contexts) {
    if (context.name != kLocalContext) names.push_back(context.name);
  }
  return names;
}

// Asks the coordinator that the words mean, once: a person waits.
std::vector<std::string> NamesFromCoordinator(const std::string& kind, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  if (kind == "CONTEXT") return ContextNames();
  if (kind != "JOB" && kind != "WORKER") return names;
  const absl::StatusOr<Settings> settings = ResolveSettings(
      {.context = ValueOf(words, "--context"), .address = ValueOf(words, "--address")}, ProcessEnvironment());
  if (!settings.ok()) return names;
  CoordinatorClient client(
      {.address = settings->address.value, .retry_for = absl::ZeroDuration(), .attempt_timeout = absl::Seconds(1)});
  if (kind == "JOB") {
    const absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs();
    if (!jobs.ok()) return names;
    for (const v1::Job& job : jobs->jobs()) names.push_back(job.status().job());
  } else {
    const absl::StatusOr<v1::ListWorkersResponse> workers = client.ListWorkers();
    if (!workers.ok()) return names;
    for (const v1::WorkerDescription& worker : workers->workers()) names.push_back(worker.name());
  }
  return names;
}

}  // namespace

std::vector<std::string> Complete(const CLI::App& root, const std::vector<std::string>& words,
                                  const NamesOf& names_of) {
  if (words.empty()) return {};
  const std::string current = words.back() == "=" ? "" : words.back();
  std::vector<std::string> candidates =
      Candidates(root, {words.begin(), words.end() - (words.back() == "=" ? 0 : 1)}, current, names_of);
  std::erase_if(candidates, [&](const std::string& candidate) {
    return candidate != kCompleteFiles && !absl::StartsWith(candidate, current);
  });
  return candidates;
}

int PrintCompletions(const CLI::App& root, const std::vector<std::string>& words) {
  for (const std::string& candidate : Complete(root, words, NamesFromCoordinator)) std::cout << candidate << "\n";
  return kExitOk;
}

void AddCompletion(CLI::App& root, Invocation& invocation) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb = AddVerb(root, "completion", "print a script that completes this program's words in a shell",
                           "  source <(stagecoach completion bash)\n"
                           "  stagecoach completion zsh > \"${fpath[1]}/_stagecoach\"\n"
                           "  stagecoach completion fish > ~/.config/fish/completions/stagecoach.fish");
  verb->add_option("shell", *shell)->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->callback([&invocation, shell] {
    invocation.run = [shell] {
      std::cout << CompletionScript(*shell);
      return kExitOk;
    };
  });
}

}  // namespace stagecoach
