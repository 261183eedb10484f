#include "common/log.h"

#include <cstdlib>

#include "spdlog/sinks/stdout_color_sinks.h"

namespace stagecoach {

void StartLog(const char* component) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(component, std::move(sink));
  const char* level = std::getenv("STAGECOACH_LOG");
  logger->set_level(level == nullptr ? spdlog::level::warn : spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace stagecoach
