#include "common/trace/transfer_lanes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

// One end of a channel. In the order in which the lanes of a stage are shown: what comes in before what goes out.
using EndKey = std::tuple<uint32_t, bool, TraceTransfer::Kind, uint32_t>;  // stage, sent, kind, peer

EndKey EndOf(const TraceTransfer& transfer) {
  return {transfer.stage, transfer.sent, transfer.kind, transfer.peer_stage};
}

const char* NounOf(TraceTransfer::Kind kind) {
  switch (kind) {
    case TraceTransfer::Kind::kActivation:
      return "activations";
    case TraceTransfer::Kind::kGradient:
      return "gradients";
    case TraceTransfer::Kind::kTie:
      return "tied gradients";
    case TraceTransfer::Kind::kSkip:
      return "skipped activations";
    case TraceTransfer::Kind::kSkipGradient:
      return "skipped gradients";
  }
  return "tensors";
}

std::string NameOf(const TraceTransfer& transfer, size_t number) {
  std::string name = absl::StrCat(transfer.sent ? "send " : "receive ", NounOf(transfer.kind),
                                  transfer.sent ? " to stage " : " of stage ", transfer.peer_stage);
  if (number > 0) absl::StrAppend(&name, " (", number + 1, ")");
  return name;
}

}  // namespace

TransferLanes::TransferLanes(const PipelineTrace& trace) : lanes_(trace.transfers.size()), names_(trace.stages.size()) {
  std::map<EndKey, std::vector<size_t>> by_end;
  for (size_t i = 0; i < trace.transfers.size(); ++i) {
    if (trace.transfers[i].stage < names_.size()) by_end[EndOf(trace.transfers[i])].push_back(i);
  }
  for (auto& [end, transfers] : by_end) {
    std::stable_sort(transfers.begin(), transfers.end(),
                     [&](size_t a, size_t b) { return trace.transfers[a].begin < trace.transfers[b].begin; });
    std::vector<std::string>& names = names_[std::get<0>(end)];
    const size_t first = names.size();
    std::vector<double> free_from;  // by lane of this end
    for (const size_t i : transfers) {
      const TraceTransfer& transfer = trace.transfers[i];
      const auto free =
          std::find_if(free_from.begin(), free_from.end(), [&](double from) { return from <= transfer.begin; });
      const auto number = static_cast<size_t>(free - free_from.begin());
      if (free == free_from.end()) {
        names.push_back(NameOf(transfer, number));
        free_from.push_back(0);
      }
      free_from[number] = std::max(transfer.begin, transfer.end);
      lanes_[i] = static_cast<uint32_t>(first + number);
    }
  }
}

}  // namespace stagecoach
