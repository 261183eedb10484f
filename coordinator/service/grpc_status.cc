#include "coordinator/service/grpc_status.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace stagecoach {
namespace {

// All headers together may have 8 KiB at peers; a message that is larger is replaced by a complaint about that.
constexpr size_t kMaxEncodedBytes = 4096;

// Up to where the text fits when what is not printable takes three bytes.
size_t BytesThatFit(absl::string_view text) {
  size_t encoded = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    encoded += absl::ascii_isprint(static_cast<unsigned char>(text[i])) && text[i] != '%' ? 1 : 3;
    if (encoded > kMaxEncodedBytes) return i;
  }
  return text.size();
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::string_view text = status.message();
  const size_t fits = BytesThatFit(text);
  std::string message(text.substr(0, fits));
  if (fits < text.size()) message += "...";
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
}

}  // namespace stagecoach
