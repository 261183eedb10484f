#include "common/log.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/stdout_color_sinks.h"

namespace stagecoach {
namespace {

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    constexpr absl::string_view kRfc3339 = "%Y-%m-%dT%H:%M:%E6SZ";
    const nlohmann::ordered_json object = {
        {"time", absl::FormatTime(kRfc3339, absl::FromChrono(message.time), absl::UTCTimeZone())},
        {"level", Text(spdlog::level::to_string_view(message.level))},
        {"component", Text(message.logger_name)},
        {"message", Text(message.payload)}};
    // Peers' text may be anything: what is not UTF-8 is replaced, not thrown at.
    line.append(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    line.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }

 private:
  static std::string Text(spdlog::string_view_t text) { return std::string(text.data(), text.size()); }
};

absl::Status CheckIsOneOf(const std::string& value, const std::vector<std::string>& allowed, absl::string_view what) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no log ", what, " \"", value, "\"; there is ", absl::StrJoin(allowed, ", ")));
}

void Install(const char* component, spdlog::level::level_enum level, const std::string& format) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(component, std::move(sink));
  if (format == "json") logger->set_formatter(std::make_unique<JsonFormatter>());
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

absl::Status StartLog(const char* component, const LogOptions& options) {
  if (absl::Status status = CheckIsOneOf(options.level, kLogLevels, "level"); !status.ok()) return status;
  if (absl::Status status = CheckIsOneOf(options.format, kLogFormats, "format"); !status.ok()) return status;
  Install(component, spdlog::level::from_str(options.level), options.format);
  return absl::OkStatus();
}

void StartLog(const char* component) {
  const char* level = std::getenv("STAGECOACH_LOG");
  Install(component, level == nullptr ? spdlog::level::warn : spdlog::level::from_str(level), "text");
}

}  // namespace stagecoach
