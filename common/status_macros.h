#ifndef STAGECOACH_COMMON_STATUS_MACROS_H_
#define STAGECOACH_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

// Returns the error of `expression`, an absl::Status, from the enclosing function.
#define STAGECOACH_RETURN_IF_ERROR(expression)                                    \
  do {                                                                            \
    if (absl::Status stagecoach_status = (expression); !stagecoach_status.ok()) { \
      return stagecoach_status;                                                   \
    }                                                                             \
  } while (false)

// Assigns the value of `expression`, an absl::StatusOr, to `declaration`, or returns its error.
#define STAGECOACH_ASSIGN_OR_RETURN(declaration, expression) \
  STAGECOACH_ASSIGN_OR_RETURN_IMPL(STAGECOACH_CONCAT(stagecoach_or_, __LINE__), declaration, expression)
#define STAGECOACH_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                             \
  if (!result.ok()) return std::move(result).status();                    \
  declaration = *std::move(result)
#define STAGECOACH_CONCAT(a, b) STAGECOACH_CONCAT_IMPL(a, b)
#define STAGECOACH_CONCAT_IMPL(a, b) a##b

namespace stagecoach {

// The same code, with where it happened in front of the message.
inline absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_STATUS_MACROS_H_
