#include "coordinator/spec/custom_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/quoted.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/spec_hints.h"
#include "coordinator/spec/spec_values.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxLabels = 64;
constexpr size_t kMaxLabelKeyBytes = 63;
constexpr size_t kMaxLabelValueBytes = 255;
constexpr uint64_t kMaxBlocksOfStage = 4096;
constexpr double kMaxPriority = 1000;
constexpr absl::Duration kLongestInterval = absl::Hours(10'000);

using Sources = google::protobuf::RepeatedPtrField<v1::DataSource>;

bool IsLabelKey(absl::string_view key) {
  return !key.empty() && key.size() <= kMaxLabelKeyBytes && std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_-./", c);
  });
}

std::string PathOfItem(absl::string_view path, size_t index) { return absl::StrCat(path, "[", index, "]"); }

// Adds a problem for what is wrong with the keys of one {path, format} item. True when nothing is.
bool CheckSourceKeys(const SpecNode& item, const std::string& path, SpecProblems& problems) {
  if (item.kind != SpecNode::Kind::kMap) {
    problems.Add(item, path, absl::StrCat("expected a mapping, got ", DescribeKind(item)), "write {path: /a/file.txt}");
    return false;
  }
  std::map<std::string, const SpecNode*> seen;
  for (const SpecNode& child : item.children) {
    const std::string child_path = JoinSpecPath(path, child.key);
    if (const auto [first, is_new] = seen.emplace(child.key, &child); !is_new) {
      problems.AddAtKey(child, child_path, DuplicateKeyMessage(*first->second));
    } else if (child.key == "weight") {
      problems.AddAtKey(child, child_path, "is not supported yet", "every file is read once per data pass");
    } else if (child.key != "path" && child.key != "format") {
      problems.AddAtKey(child, child_path, "unknown key", HintFromCandidates(child.key, {"path", "format", "weight"}));
    }
  }
  if (item.Find("path") == nullptr) problems.Add(item, absl::StrCat(path, ".path"), "is required and missing");
  return problems.IsSound(path);
}

void ParseSource(const SpecNode& item, const std::string& path, Sources& sources, SpecProblems& problems) {
  if (!CheckSourceKeys(item, path, problems)) return;
  const SpecNode& path_node = *item.Find("path");
  const std::string path_path = absl::StrCat(path, ".path");
  const std::optional<std::string> text = ReadText(path_node, path_path, problems);
  if (!text.has_value()) return;
  const absl::StatusOr<std::string> checked = CheckPath(*text);
  if (!checked.ok()) {
    problems.Add(path_node, path_path, checked.status().message());
    return;
  }
  if (const SpecNode* format = item.Find("format"); format != nullptr) {
    const std::string format_path = absl::StrCat(path, ".format");
    if (!ReadChoice(*format, format_path, "text|auto", "llmc|nanogpt|megatron|synthetic", problems)) return;
  }
  v1::DataSource& source = *sources.Add();
  source.set_path(*checked);
  source.set_format("text");
}

void ParseSources(const SpecNode& node, absl::string_view path, Sources& sources, SpecProblems& problems) {
  if (node.kind != SpecNode::Kind::kSequence) {
    problems.Add(node, path, absl::StrCat("expected a list, got ", DescribeKind(node)), "write [{path: /a/file.txt}]");
    return;
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    ParseSource(node.children[i], PathOfItem(path, i), sources, problems);
  }
}

std::string PrintSources(const Sources& sources) {
  if (sources.empty()) return "[]";
  std::string text;
  for (const v1::DataSource& source : sources) {
    absl::StrAppend(&text, "\n    - {path: ", PrintText(source.path()), ", format: ", PrintText(source.format()), "}");
  }
  return text;
}

}  // namespace

void ParseLabels(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  if (node.kind != SpecNode::Kind::kMap) {
    problems.Add(node, path, absl::StrCat("expected a mapping, got ", DescribeKind(node)), "write {team: nlp}");
    return;
  }
  if (node.children.size() > kMaxLabels) {
    problems.Add(node, path, absl::StrCat(node.children.size(), " labels; at most ", kMaxLabels));
    return;
  }
  for (const SpecNode& child : node.children) {
    const std::string child_path = JoinSpecPath(path, child.key);
    if (!IsLabelKey(child.key)) {
      problems.AddAtKey(
          child, child_path,
          absl::StrCat("a label's key has 1 to ", kMaxLabelKeyBytes, " letters, digits, '_', '-', '.' and '/'"));
      continue;
    }
    const SpecNode& first = *node.Find(child.key);
    if (&first != &child) {
      problems.AddAtKey(child, child_path, DuplicateKeyMessage(first));
      continue;
    }
    const std::optional<std::string> value = ReadText(child, child_path, problems);
    if (!value.has_value()) continue;
    if (value->size() > kMaxLabelValueBytes) {
      problems.Add(child, child_path, absl::StrCat("longer than ", kMaxLabelValueBytes, " bytes"));
      continue;
    }
    (*spec.mutable_labels())[child.key] = *value;
  }
}

std::string PrintLabels(const v1::JobSpec& spec) {
  const std::map<std::string, std::string> sorted(spec.labels().begin(), spec.labels().end());
  return absl::StrCat("{",
                      absl::StrJoin(sorted, ", ",
                                    [](std::string* out, const auto& label) {
                                      absl::StrAppend(out, PrintText(label.first), ": ", PrintText(label.second));
                                    }),
                      "}");
}

void ParseTrainSources(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  ParseSources(node, path, *spec.mutable_data()->mutable_train(), problems);
  if (node.kind == SpecNode::Kind::kSequence && node.children.empty()) {
    problems.Add(node, path, "the list is empty", "write [{path: /a/file.txt}]");
  }
}
std::string PrintTrainSources(const v1::JobSpec& spec) { return PrintSources(spec.data().train()); }

void ParseValidationSources(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  ParseSources(node, path, *spec.mutable_data()->mutable_validation(), problems);
}
std::string PrintValidationSources(const v1::JobSpec& spec) { return PrintSources(spec.data().validation()); }

void ParseBetas(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  if (node.kind != SpecNode::Kind::kSequence || node.children.size() != 2) {
    problems.Add(node, path, absl::StrCat("expected a list of two numbers, got ", DescribeKind(node)),
                 "write [0.9, 0.95]");
    return;
  }
  constexpr NumberRange kRange = {.min = 0, .max = 1, .below_max = true};
  const std::optional<double> beta1 = ReadNumber(node.children[0], PathOfItem(path, 0), kRange, problems);
  const std::optional<double> beta2 = ReadNumber(node.children[1], PathOfItem(path, 1), kRange, problems);
  if (!beta1.has_value() || !beta2.has_value()) return;
  spec.mutable_optimizer()->set_beta1(*beta1);
  spec.mutable_optimizer()->set_beta2(*beta2);
}

std::string PrintBetas(const v1::JobSpec& spec) {
  return absl::StrCat("[", PrintNumber(spec.optimizer().beta1()), ", ", PrintNumber(spec.optimizer().beta2()), "]");
}

void ParsePartition(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  v1::PartitionSpec& partition = *spec.mutable_parallelism()->mutable_partition();
  if (IsWord(node, "auto") || IsWord(node, "even")) {
    partition.set_kind(node.scalar == "auto" ? v1::PartitionSpec::KIND_AUTO : v1::PartitionSpec::KIND_EVEN);
    return;
  }
  if (node.kind != SpecNode::Kind::kSequence) {
    problems.Add(node, path, "expected auto, even, or a list of how many blocks each stage has", "write [3, 3, 3, 3]");
    return;
  }
  partition.set_kind(v1::PartitionSpec::KIND_LAYERS);
  for (size_t i = 0; i < node.children.size(); ++i) {
    const auto blocks = ReadInteger(node.children[i], PathOfItem(path, i), {1, kMaxBlocksOfStage}, problems);
    if (blocks.has_value()) partition.add_num_blocks(static_cast<uint32_t>(*blocks));
  }
}

std::string PrintPartition(const v1::JobSpec& spec) {
  const v1::PartitionSpec& partition = spec.parallelism().partition();
  if (partition.kind() == v1::PartitionSpec::KIND_LAYERS) {
    return absl::StrCat("[", absl::StrJoin(partition.num_blocks(), ", "), "]");
  }
  return partition.kind() == v1::PartitionSpec::KIND_EVEN ? "even" : "auto";
}

void ParseIntervalTime(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  const std::optional<std::string> text = ReadText(node, path, problems);
  if (!text.has_value()) return;
  absl::Duration interval;
  if (!absl::ParseDuration(*text, &interval) || interval < absl::ZeroDuration() || interval > kLongestInterval) {
    problems.Add(
        node, path,
        absl::StrCat("expected a duration up to ", absl::FormatDuration(kLongestInterval), ", got ", Quoted(*text)),
        "write 15m, 1h30m or 90s");
    return;
  }
  spec.mutable_checkpoint()->set_interval_seconds(absl::ToDoubleSeconds(interval));
}

std::string PrintIntervalTime(const v1::JobSpec& spec) {
  const double seconds = spec.checkpoint().interval_seconds();
  return seconds == 0 ? "0s" : absl::FormatDuration(absl::Seconds(seconds));
}

void ParsePriority(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  const std::optional<double> value = ReadNumber(node, path, {-kMaxPriority, kMaxPriority}, problems);
  if (!value.has_value()) return;
  const absl::string_view digits = absl::StripPrefix(absl::StripPrefix(node.scalar, "+"), "-");
  const bool is_integer = std::all_of(digits.begin(), digits.end(),
                                      [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
  if (!is_integer) {
    problems.Add(node, path, absl::StrCat("expected an integer, got ", Quoted(node.scalar)));
    return;
  }
  spec.mutable_limits()->set_priority(static_cast<int32_t>(*value));
}

std::string PrintPriority(const v1::JobSpec& spec) { return absl::StrCat(spec.limits().priority()); }

}  // namespace stagecoach
