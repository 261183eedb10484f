#ifndef STAGECOACH_CLIENT_CONTEXTS_CONTEXT_FILE_H_
#define STAGECOACH_CLIENT_CONTEXTS_CONTEXT_FILE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

// A coordinator that has a name.
struct Context {
  std::string name;
  std::string address;
  std::string state_dir;  // of the local cluster that `stagecoach up` runs there; empty: another's
};

// The file in which they are kept:
//
//   version: 1
//   current_context: local
//   contexts:
//     - {name: local, address: "unix:/home/ada/.local/state/stagecoach/local/coordinator.sock", state_dir: /home/...}
struct ContextFile {
  std::string current;  // empty: none
  std::vector<Context> contexts;

  const Context* Find(absl::string_view name) const;
  void Put(Context context);  // replaces the one of its name
  void Remove(absl::string_view name);
};

// INVALID_ARGUMENT, with line and column: not YAML, unknown or repeated keys, names or addresses that are none, and by
// name what is not there yet: ca, cert, key, token_file, namespace. `path` is for messages.
absl::StatusOr<ContextFile> ParseContextFile(absl::string_view text, absl::string_view path);
std::string PrintContextFile(const ContextFile& file);

// The file at `path`; when there is none, an empty one.
absl::StatusOr<ContextFile> LoadContexts(const std::string& path);
// Reads, changes and writes it, one process at a time; it appears as a whole, and only its owner can read it. Missing
// folders are made. Nothing is written when `change` fails.
absl::Status UpdateContexts(const std::string& path, const std::function<absl::Status(ContextFile&)>& change);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CONTEXTS_CONTEXT_FILE_H_
