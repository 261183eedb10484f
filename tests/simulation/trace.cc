#include "tests/simulation/trace.h"

#include <xxhash.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stagecoach::simulation {
namespace {

constexpr size_t kLinesKept = 50;

}  // namespace

void Trace::Add(absl::Duration now, absl::string_view line) {
  std::string text;
  if (last_.size() == kLinesKept) {
    text = std::move(last_.front());
    last_.pop_front();
    text.clear();
  }
  absl::StrAppendFormat(&text, "%10.4f  %s", absl::ToDoubleSeconds(now), line);
  hash_ = XXH3_64bits_withSeed(text.data(), text.size(), hash_);
  ++num_lines_;
  if (print_) std::printf("%s\n", text.c_str());
  last_.push_back(std::move(text));
}

}  // namespace stagecoach::simulation
