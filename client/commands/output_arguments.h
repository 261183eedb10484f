#ifndef STAGECOACH_CLIENT_COMMANDS_OUTPUT_ARGUMENTS_H_
#define STAGECOACH_CLIENT_COMMANDS_OUTPUT_ARGUMENTS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/output/json.h"
#include "client/output/table.h"

namespace stagecoach {

// How a verb prints.
struct OutputArguments {
  std::string format;
  bool no_headers = false;
  bool quiet = false;
  std::string color = "auto";

  bool is_json() const { return format == "json"; }
  // --color, NO_COLOR, TERM, and whether standard output is a terminal.
  bool colour() const;
  TableStyle style() const { return {.headers = !no_headers, .colour = colour()}; }
};

// -o with these formats. The default is STAGECOACH_OUTPUT when the verb has that format, else the first.
void AddFormatOption(CLI::App& verb, OutputArguments& arguments, const std::vector<std::string>& formats,
                     const std::string& flags = "-o,--output");
// Also --no-headers, -q and --color: for verbs that print tables.
void AddTableOptions(CLI::App& verb, OutputArguments& arguments, const std::vector<std::string>& formats);
// INVALID_ARGUMENT: STAGECOACH_OUTPUT is no format of any verb.
absl::Status CheckOutputEnvironment();

inline const std::vector<std::string> kListFormats = {"table", "wide", "json", "yaml", "name", "jsonl"};

// Things of one kind, ready for every format.
struct Listing {
  std::string key;  // of the list in JSON: "jobs"
  std::vector<std::string> names = {};
  std::vector<Json> items = {};
  Table table;
};
void PrintListing(const Listing& listing, const OutputArguments& arguments);
// One thing in json, jsonl or yaml.
void PrintObject(const Json& object, const std::string& format);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_OUTPUT_ARGUMENTS_H_
