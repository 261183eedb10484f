#ifndef STAGECOACH_COORDINATOR_SPEC_LAYER_NAME_INDEX_H_
#define STAGECOACH_COORDINATOR_SPEC_LAYER_NAME_INDEX_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

inline constexpr absl::string_view kBlockPrefix = "transformer.h.";
// Of a list that names layers: as many as a model may have.
inline constexpr size_t kMaxListedLayers = 4100;

// The layers of a model by their names, for keys that name some.
class LayerNameIndex {
 public:
  explicit LayerNameIndex(const v1::ModelConfig& config);

  size_t size() const { return names_.size(); }
  const std::string& name(size_t layer) const { return names_[layer]; }
  std::optional<size_t> Find(const std::string& name) const;

  // All of them, in a few words.
  std::string LayersText() const;
  // For a name that is none. A tensor's name has its layer's in front; `whole` says what layers are for, all of it.
  std::string HintFor(const std::string& name, absl::string_view whole) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, size_t> layer_of_name_;
};

// Text that may be a layer's name; one problem when it returns nothing.
std::optional<std::string> ReadLayerName(const SpecNode& node, absl::string_view path, SpecProblems& problems);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_LAYER_NAME_INDEX_H_
