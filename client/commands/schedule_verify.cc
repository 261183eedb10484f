#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/output_arguments.h"
#include "client/commands/text_input.h"
#include "client/output/error_report.h"
#include "common/status_macros.h"
#include "coordinator/program/lowered_csv.h"
#include "coordinator/program/program_parser.h"
#include "coordinator/program/schedule_proof.h"
#include "coordinator/program/table_text.h"
#include "coordinator/program/timed_table.h"
#include "coordinator/schedule/sheet_checks.h"

namespace stagecoach {
namespace {

constexpr uint64_t kMaxFileBytes = 256 << 20;

struct VerifyArguments {
  std::string file;
  std::optional<uint32_t> num_workers = std::nullopt;
  std::string sends = "rendezvous";
  OutputArguments output;

  bool is_buffered() const { return sends == "buffered"; }
};

struct Verdict {
  std::string level;  // what the file holds: "compute", "lowered", "timed"
  ProvenSchedule proven;
};

absl::Status CheckNumWorkers(const VerifyArguments& arguments, size_t num_workers) {
  if (!arguments.num_workers.has_value() || *arguments.num_workers == num_workers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the file has ", num_workers, " workers; --stages says ", *arguments.num_workers));
}

absl::StatusOr<Verdict> VerifyTable(const VerifyArguments& arguments, const std::string& level,
                                    const v1::ComputeTable& table) {
  STAGECOACH_RETURN_IF_ERROR(CheckNumWorkers(arguments, static_cast<size_t>(table.workers_size())));
  const SendSemantics sends = arguments.is_buffered() ? SendSemantics::kBuffered : SendSemantics::kRendezvous;
  STAGECOACH_ASSIGN_OR_RETURN(ProvenSchedule proven, ProveTable(table, {}, sends));
  return Verdict{level, std::move(proven)};
}

absl::StatusOr<Verdict> VerifyPrograms(const VerifyArguments& arguments, std::vector<v1::StageProgram> programs,
                                       SendSemantics rendezvous) {
  STAGECOACH_RETURN_IF_ERROR(CheckNumWorkers(arguments, programs.size()));
  const SendSemantics sends = arguments.is_buffered() ? SendSemantics::kBuffered : rendezvous;
  STAGECOACH_ASSIGN_OR_RETURN(ProvenSchedule proven, ProvePrograms(std::move(programs), sends));
  return Verdict{"lowered", std::move(proven)};
}

absl::StatusOr<Verdict> VerifyCsv(const VerifyArguments& arguments, absl::string_view text) {
  STAGECOACH_ASSIGN_OR_RETURN(const ActionSheet sheet, ReadActionCsv(text));
  if (LevelOf(sheet) == SheetLevel::kCompute) {
    STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table, TableOfSheet(sheet, "csv"));
    return VerifyTable(arguments, "compute", table);
  }
  STAGECOACH_ASSIGN_OR_RETURN(std::vector<v1::StageProgram> programs, ProgramsOfSheet(sheet));
  // Whoever runs such a file waits in its sends.
  return VerifyPrograms(arguments, std::move(programs), SendSemantics::kBlocking);
}

// The first word says what a text is.
absl::StatusOr<Verdict> VerifyText(const VerifyArguments& arguments, absl::string_view text) {
  const absl::string_view start = absl::StripLeadingAsciiWhitespace(text);
  if (absl::StartsWith(start, "table ")) {
    STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table, ParseTableText(text));
    return VerifyTable(arguments, "compute", table);
  }
  if (absl::StartsWith(start, "timeline ")) {
    STAGECOACH_ASSIGN_OR_RETURN(const v1::TimedTable timed, ParseTimedTableText(text));
    return VerifyTable(arguments, "timed", TableOf(timed));
  }
  if (absl::StartsWith(start, "program ")) {
    STAGECOACH_ASSIGN_OR_RETURN(std::vector<v1::StageProgram> programs, ParseProgramText(text));
    return VerifyPrograms(arguments, std::move(programs), SendSemantics::kRendezvous);
  }
  return VerifyCsv(arguments, text);
}

uint32_t NumStages(const std::vector<v1::StageProgram>& programs) {
  int num_stages = 0;
  for (const v1::StageProgram& program : programs) num_stages += program.stages_size();
  return static_cast<uint32_t>(num_stages);
}

void PrintVerdict(const VerifyArguments& arguments, const Verdict& verdict) {
  const ProvenSchedule& proven = verdict.proven;
  const uint32_t num_stages = NumStages(proven.programs);
  const uint32_t num_micro_batches = proven.programs[0].num_micro_batches();
  const std::string hash = absl::BytesToHexString(proven.program_hash);
  if (arguments.output.is_json()) {
    PrintObject({{"verified", true},
                 {"level", verdict.level},
                 {"sends", arguments.sends},
                 {"workers", proven.programs.size()},
                 {"stages", num_stages},
                 {"micro_batches", num_micro_batches},
                 {"receive_slots", proven.num_receive_slots},
                 {"program_hash", hash}},
                "json");
    return;
  }
  std::cout << arguments.file << ": proven (" << verdict.level << (verdict.level == "lowered" ? "" : ", lowered here")
            << "): " << proven.programs.size() << " workers, " << num_stages << " stages, " << num_micro_batches
            << " micro-batches; ends under " << arguments.sends << " sends; " << proven.num_receive_slots
            << " receive slots; hash " << hash << "\n";
}

int VerifyFile(const VerifyArguments& arguments) {
  const ErrorStyle style{.json = arguments.output.is_json()};
  const absl::StatusOr<std::string> text = ReadTextInput(arguments.file, kMaxFileBytes);
  if (!text.ok()) return ReportFailure({.code = kExitUsage, .status = text.status()}, style);
  const absl::StatusOr<Verdict> verdict = VerifyText(arguments, *text);
  if (!verdict.ok()) {
    return ReportFailure({.code = kExitUsage, .status = WithContext(verdict.status(), arguments.file)}, style);
  }
  PrintVerdict(arguments, *verdict);
  return kExitOk;
}

}  // namespace

void AddScheduleVerify(CLI::App& schedule, Invocation& invocation) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* verb = AddVerb(
      schedule, "verify",
      "prove that a schedule covers every stage and micro-batch once and ends; exit 2 with the shortest "
      "counter-example otherwise. FILE is a compute-only or lowered CSV of PyTorch's kind, or a canonical text of "
      "`schedule show -o canonical`. A compute table is lowered first, for a model of equal stages. A lowered program "
      "is taken as it stands",
      "  stagecoach schedule verify 1f1b.csv\n"
      "  stagecoach schedule verify lowered.csv --sends buffered -o json");
  verb->add_option("file", arguments->file, "- reads standard input")->required()->type_name("FILE");
  verb->add_option("--stages", arguments->num_workers, "workers that the file must have")->type_name("P");
  verb->add_option("--sends", arguments->sends,
                   "rendezvous, the default: a send is complete once its receive is posted, and in a lowered CSV its "
                   "worker waits for that; buffered: at once")
      ->check(CLI::IsMember({"rendezvous", "buffered"}))
      ->type_name("SENDS");
  AddFormatOption(*verb, arguments->output, {"text", "json"});
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return VerifyFile(*arguments); }; });
}

}  // namespace stagecoach
