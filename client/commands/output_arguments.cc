#include "client/commands/output_arguments.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/contexts/settings.h"
#include "common/quoted.h"

namespace stagecoach {
namespace {

const std::vector<std::string> kAllFormats = {"table", "wide",  "json", "yaml", "name",     "jsonl",
                                              "text",  "trace", "csv",  "svg",  "canonical"};

bool Contains(const std::vector<std::string>& formats, const std::string& format) {
  return std::find(formats.begin(), formats.end(), format) != formats.end();
}

std::string DefaultFormat(const std::vector<std::string>& formats) {
  const std::optional<std::string> format = ProcessEnvironment()("STAGECOACH_OUTPUT");
  return format && Contains(formats, *format) ? *format : formats.front();
}

Json WithVersion(Json object) {
  Json versioned = {{"schema_version", kSchemaVersion}};
  versioned.update(object);
  return versioned;
}

}  // namespace

bool OutputArguments::colour() const {
  if (color != "auto") return color == "always";
  const Environment environment = ProcessEnvironment();
  return isatty(STDOUT_FILENO) == 1 && !environment("NO_COLOR") && environment("TERM").value_or("dumb") != "dumb";
}

void AddFormatOption(CLI::App& verb, OutputArguments& arguments, const std::vector<std::string>& formats,
                     const std::string& flags) {
  arguments.format = DefaultFormat(formats);
  verb.add_option(flags, arguments.format, absl::StrCat("default: ", formats.front()))
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT");
}

void AddTableOptions(CLI::App& verb, OutputArguments& arguments, const std::vector<std::string>& formats) {
  AddFormatOption(verb, arguments, formats);
  verb.add_flag("--no-headers", arguments.no_headers, "tables without their first line");
  verb.add_flag("-q,--quiet", arguments.quiet, "names only");
  verb.add_option("--color", arguments.color, "auto: at a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
}

absl::Status CheckOutputEnvironment() {
  const std::optional<std::string> format = ProcessEnvironment()("STAGECOACH_OUTPUT");
  if (!format || Contains(kAllFormats, *format)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("STAGECOACH_OUTPUT is ", Quoted(*format), "; it may be ", absl::StrJoin(kAllFormats, ", ")));
}

void PrintObject(const Json& object, const std::string& format) {
  if (format == "yaml") {
    std::cout << PrintYaml(WithVersion(object));
  } else {
    const JsonForm form = format == "jsonl" ? JsonForm::kOneLine : JsonForm::kIndented;
    std::cout << PrintJsonText(WithVersion(object), form) << "\n";
  }
}

void PrintListing(const Listing& listing, const OutputArguments& arguments) {
  if (arguments.quiet || arguments.format == "name") {
    for (const std::string& name : listing.names) std::cout << name << "\n";
  } else if (arguments.format == "jsonl") {
    for (const Json& item : listing.items) std::cout << PrintJsonText(item, JsonForm::kOneLine) << "\n";
  } else if (arguments.format == "json" || arguments.format == "yaml") {
    PrintObject({{listing.key, listing.items}}, arguments.format);
  } else {
    std::cout << listing.table.Text(arguments.style());
  }
}

}  // namespace stagecoach
