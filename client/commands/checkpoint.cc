#include "formats/checkpoint.h"

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/checkpoint_list.h"
#include "client/commands/command.h"
#include "client/commands/confirmation.h"
#include "client/commands/output_arguments.h"
#include "client/output/error_report.h"
#include "client/output/exit_codes.h"
#include "common/file_system.h"
#include "formats/checkpoint_retention.h"

namespace stagecoach {
namespace {

struct DigestArguments {
  std::string path;
  bool state = false;
};

int Fail(const absl::Status& status, ExitCode code = kExitUsage) {
  return ReportFailure({.code = code, .status = status}, {});
}

int PrintDigest(const DigestArguments& arguments) {
  const absl::StatusOr<VerifiedCheckpoint> checkpoint = VerifyCheckpoint(FileSystem::Posix(), arguments.path);
  if (!checkpoint.ok()) return Fail(checkpoint.status());
  std::cout << (arguments.state ? checkpoint->state_digest : checkpoint->digest) << "\n";
  return kExitOk;
}

// ---- ls and verify

struct ListArguments {
  std::string path;
  OutputArguments output;
};

int ListOrVerify(const ListArguments& arguments, bool verify) {
  FileSystem& files = FileSystem::Posix();
  const absl::StatusOr<std::vector<CheckpointDirectory>> found = CheckpointsAt(files, arguments.path);
  if (!found.ok()) return Fail(found.status());
  std::vector<FoundCheckpoint> looked_at;
  for (const CheckpointDirectory& checkpoint : *found) {
    if (std::optional<FoundCheckpoint> one = LookAtCheckpoint(files, checkpoint, verify)) {
      looked_at.push_back(*std::move(one));
    }
  }
  PrintListing(CheckpointListing(looked_at), arguments.output);
  bool all_right = true;
  for (const FoundCheckpoint& one : looked_at) {
    if (one.message.empty()) continue;
    all_right = false;
    std::cerr << "stagecoach: " << Printable(one.message) << "\n";
  }
  return all_right || !verify ? kExitOk : kExitUsage;
}

void AddListVerb(CLI::App& checkpoint, Invocation& invocation, const std::string& name, const std::string& summary,
                 bool verify) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* verb = AddVerb(checkpoint, name, summary, "  stagecoach checkpoint " + name + " DIR");
  verb->add_option("path", arguments->path, "a checkpoint, or a directory of them")->required()->type_name("DIR");
  AddTableOptions(*verb, arguments->output, {"table", "json", "yaml", "name", "jsonl"});
  verb->callback([&invocation, arguments, verify] {
    invocation.run = [arguments, verify] { return ListOrVerify(*arguments, verify); };
  });
}

// ---- prune

struct PruneArguments {
  std::string path;
  std::string job;
  uint32_t keep_last = 0;
  bool incomplete = false;
  bool yes = false;
};

absl::Status RemoveIncomplete(FileSystem& files, const std::string& directory, std::vector<std::string>& removed) {
  const absl::StatusOr<std::vector<CheckpointDirectory>> found = ListCheckpoints(files, directory);
  if (!found.ok()) return found.status();
  for (const CheckpointDirectory& checkpoint : *found) {
    if (checkpoint.is_complete) continue;
    if (const absl::Status status = files.RemoveTree(checkpoint.path); !status.ok()) return status;
    removed.push_back(checkpoint.path);
  }
  return absl::OkStatus();
}

int Prune(const PruneArguments& arguments) {
  FileSystem& files = FileSystem::Posix();
  const std::string what = arguments.incomplete ? " and what has no manifest (no job may be writing there)" : "";
  if (!Confirm(absl::StrCat("Remove all but the newest ", arguments.keep_last, " checkpoints in ", arguments.path, what,
                            "?"),
               arguments.yes)) {
    return kExitError;
  }
  absl::StatusOr<std::vector<std::string>> removed =
      CheckpointRetention(files).Prune(arguments.path, arguments.job, arguments.keep_last);
  if (!removed.ok()) return Fail(removed.status(), absl::IsNotFound(removed.status()) ? kExitUsage : kExitError);
  const absl::Status status =
      arguments.incomplete ? RemoveIncomplete(files, arguments.path, *removed) : absl::OkStatus();
  for (const std::string& path : *removed) std::cout << path << "\n";
  return status.ok() ? kExitOk : Fail(status, kExitError);
}

void AddPruneVerb(CLI::App& checkpoint, Invocation& invocation) {
  auto arguments = std::make_shared<PruneArguments>();
  CLI::App* verb = AddVerb(checkpoint, "prune", "remove old checkpoints; prints what was removed",
                           "  stagecoach checkpoint prune DIR --keep-last 3\n"
                           "  stagecoach checkpoint prune DIR --keep-last 3 --incomplete");
  verb->add_option("path", arguments->path, "a directory of checkpoints")->required()->type_name("DIR");
  verb->add_option("--keep-last", arguments->keep_last, "the newest that verify stay, and what is newer than they are")
      ->required()
      ->check(CLI::Range(1u, 1'000'000u));
  verb->add_option("--job", arguments->job, "only those of jobs of this name");
  verb->add_flag("--incomplete", arguments->incomplete,
                 "also what has no manifest: what a killed job has left, but also what a running one is writing");
  verb->add_flag("-y,--yes", arguments->yes, "do not ask; without a terminal nothing is asked");
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Prune(*arguments); }; });
}

}  // namespace

void AddCheckpoint(CLI::App& root, Invocation& invocation) {
  CLI::App* checkpoint = AddVerb(root, "checkpoint", "write, list, check and remove checkpoints",
                                 "  stagecoach checkpoint create JOB\n"
                                 "  stagecoach checkpoint ls DIR");
  checkpoint->require_subcommand(1);

  auto arguments = std::make_shared<DigestArguments>();
  CLI::App* digest = AddVerb(*checkpoint, "digest",
                             "verify a checkpoint and print the digest of its parameters, computed from the shards",
                             "  stagecoach checkpoint digest /tmp/stagecoach/tiny\n"
                             "  stagecoach checkpoint digest DIR --state");
  digest->add_option("path", arguments->path, "a checkpoint, or a directory of them: the newest is read")
      ->required()
      ->type_name("DIR");
  digest->add_flag("--state", arguments->state, "of parameters, optimizer state and update count");
  digest->callback([&invocation, arguments] { invocation.run = [arguments] { return PrintDigest(*arguments); }; });

  AddListVerb(*checkpoint, invocation, "ls", "what is there, by the manifests alone", /*verify=*/false);
  AddListVerb(*checkpoint, invocation, "verify", "read every byte; exit 2 unless all verify", /*verify=*/true);
  AddPruneVerb(*checkpoint, invocation);
  AddCheckpointCreate(*checkpoint, invocation);
}

}  // namespace stagecoach
