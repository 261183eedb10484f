#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/proto_json.h"
#include "formats/checkpoint_manifest.h"
#include "google/protobuf/util/message_differencer.h"

// Any text is refused, or it is a message that its printed form reads back to.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using google::protobuf::util::MessageDifferencer;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto manifest = stagecoach::ParseManifest(text);
  STAGECOACH_CHECK(manifest.ok() || absl::IsDataLoss(manifest.status()));

  stagecoach::v1::CheckpointManifest message, again;
  if (!stagecoach::ParseJson(text, message).ok()) return 0;
  STAGECOACH_CHECK(stagecoach::ParseJson(stagecoach::PrintJson(message), again).ok());
  STAGECOACH_CHECK(MessageDifferencer::Equals(message, again));
  return 0;
}
