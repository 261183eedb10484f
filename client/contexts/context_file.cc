#include "client/contexts/context_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/contexts/private_file.h"
#include "common/file_system.h"
#include "common/listen_address.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "coordinator/spec/spec_hints.h"
#include "coordinator/spec/spec_node.h"
#include "yaml-cpp/yaml.h"

namespace stagecoach {
namespace {

constexpr absl::string_view kNotYet[] = {"ca", "cert", "key", "token_file", "namespace"};

// Walks the YAML tree; the first thing that is wrong ends it.
class Reader {
 public:
  explicit Reader(absl::string_view path) : path_(path) {}

  absl::StatusOr<ContextFile> Read(const SpecNode& root) {
    ContextFile file;
    if (root.kind == SpecNode::Kind::kNull) return file;
    STAGECOACH_RETURN_IF_ERROR(CheckKeys(root, {"version", "current_context", "contexts"}));
    STAGECOACH_ASSIGN_OR_RETURN(const std::string version, Scalar(root, "version"));
    if (version != "1") return Wrong(root, absl::StrCat("version ", Quoted(version), " is not 1"));
    STAGECOACH_ASSIGN_OR_RETURN(file.current, Scalar(root, "current_context"));
    const SpecNode* contexts = root.Find("contexts");
    if (contexts == nullptr || contexts->kind == SpecNode::Kind::kNull) return file;
    if (contexts->kind != SpecNode::Kind::kSequence) return Wrong(*contexts, "contexts is not a list");
    for (const SpecNode& node : contexts->children) {
      STAGECOACH_ASSIGN_OR_RETURN(Context context, ReadContext(node));
      if (file.Find(context.name) != nullptr) return Wrong(node, absl::StrCat("another is named ", context.name));
      file.contexts.push_back(std::move(context));
    }
    return file;
  }

 private:
  absl::StatusOr<Context> ReadContext(const SpecNode& node) {
    STAGECOACH_RETURN_IF_ERROR(CheckKeys(node, {"name", "address", "state_dir"}));
    Context context;
    STAGECOACH_ASSIGN_OR_RETURN(context.name, Scalar(node, "name"));
    STAGECOACH_ASSIGN_OR_RETURN(context.address, Scalar(node, "address"));
    STAGECOACH_ASSIGN_OR_RETURN(context.state_dir, Scalar(node, "state_dir"));
    if (context.name.empty() || std::any_of(context.name.begin(), context.name.end(), absl::ascii_isspace)) {
      return Wrong(node, "a context needs a name without spaces");
    }
    if (const auto address = ParseListenAddress(context.address); !address.ok()) {
      return Wrong(node, address.status().message());
    }
    return context;
  }

  absl::Status CheckKeys(const SpecNode& map, const std::vector<absl::string_view>& known) {
    if (map.kind != SpecNode::Kind::kMap) return Wrong(map, "is not a map of keys");
    std::set<std::string> seen;
    for (const SpecNode& child : map.children) {
      if (!seen.insert(child.key).second) return WrongKey(child, "is given twice");
      if (std::find(known.begin(), known.end(), child.key) != known.end()) continue;
      if (std::find(std::begin(kNotYet), std::end(kNotYet), child.key) != std::end(kNotYet)) {
        return WrongKey(child, "is not supported yet: coordinators are reached without credentials");
      }
      const std::string hint = HintFromCandidates(child.key, known);
      return WrongKey(child, absl::StrCat("is unknown", hint.empty() ? "" : "; ", hint));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Scalar(const SpecNode& map, absl::string_view key) {
    const SpecNode* node = map.Find(key);
    if (node == nullptr || node->kind == SpecNode::Kind::kNull) return "";
    if (node->kind != SpecNode::Kind::kScalar) return Wrong(*node, absl::StrCat(key, " is not a single value"));
    return node->scalar;
  }

  absl::Status WrongKey(const SpecNode& node, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", node.key_line, ":", node.key_column, ": ", Quoted(node.key), " ", what));
  }
  absl::Status Wrong(const SpecNode& node, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", node.line, ":", node.column, ": ", what));
  }

  const absl::string_view path_;
};

}  // namespace

const Context* ContextFile::Find(absl::string_view name) const {
  const auto found = std::find_if(contexts.begin(), contexts.end(), [&](const Context& c) { return c.name == name; });
  return found == contexts.end() ? nullptr : &*found;
}

void ContextFile::Put(Context context) {
  for (Context& known : contexts) {
    if (known.name != context.name) continue;
    known = std::move(context);
    return;
  }
  contexts.push_back(std::move(context));
}

void ContextFile::Remove(absl::string_view name) {
  std::erase_if(contexts, [&](const Context& context) { return context.name == name; });
  if (current == name) current.clear();
}

absl::StatusOr<ContextFile> ParseContextFile(absl::string_view text, absl::string_view path) {
  if (absl::StripAsciiWhitespace(text).empty()) return ContextFile{};
  SpecNode root;
  std::vector<SpecError> errors;
  if (!ParseSpecTree(text, root, errors)) {
    return absl::InvalidArgumentError(errors.empty() ? absl::StrCat(path, ": not YAML")
                                                     : FormatSpecError(path, errors.front()));
  }
  return Reader(path).Read(root);
}

std::string PrintContextFile(const ContextFile& file) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "version" << YAML::Value << 1;
  if (!file.current.empty()) out << YAML::Key << "current_context" << YAML::Value << YAML::DoubleQuoted << file.current;
  out << YAML::Key << "contexts" << YAML::Value << YAML::BeginSeq;
  for (const Context& context : file.contexts) {
    out << YAML::BeginMap << YAML::Key << "name" << YAML::Value << YAML::DoubleQuoted << context.name;
    out << YAML::Key << "address" << YAML::Value << YAML::DoubleQuoted << context.address;
    if (!context.state_dir.empty()) {
      out << YAML::Key << "state_dir" << YAML::Value << YAML::DoubleQuoted << context.state_dir;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return absl::StrCat(out.c_str(), "\n");
}

absl::StatusOr<ContextFile> LoadContexts(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(FileSystem::Posix(), path, kMaxSpecBytes);
  if (absl::IsNotFound(text.status())) return ContextFile{};
  if (!text.ok()) return text.status();
  return ParseContextFile(*text, path);
}

absl::Status UpdateContexts(const std::string& path, const std::function<absl::Status(ContextFile&)>& change) {
  STAGECOACH_RETURN_IF_ERROR(MakePrivateDirectory(DirectoryOf(path)));
  STAGECOACH_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Wait(path + ".lock", absl::Seconds(10)));
  STAGECOACH_ASSIGN_OR_RETURN(ContextFile file, LoadContexts(path));
  STAGECOACH_RETURN_IF_ERROR(change(file));
  return WritePrivateFile(path, PrintContextFile(file));
}

}  // namespace stagecoach
