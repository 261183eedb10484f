#include "coordinator/service/rpc_metrics.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace stagecoach {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

constexpr absl::string_view kCounted = "/stagecoach.v1.CoordinatorService/";

// One call, from its beginning to the status that is sent.
class CountedCall final : public grpc::experimental::Interceptor {
 public:
  CountedCall(MetricRegistry& registry, std::string method, bool has_one_answer)
      : registry_(registry), method_(std::move(method)), has_one_answer_(has_one_answer) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) Count(methods->GetSendStatus());
    methods->Proceed();
  }

 private:
  void Count(const grpc::Status& status) {
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    registry_.Counter("stagecoach_rpc_handled_total", {method_, absl::AsciiStrToLower(absl::StatusCodeToString(code))})
        .Increment();
    if (method_ == "SubmitJob" && !status.ok()) {
      registry_.Counter("stagecoach_jobs_submitted_total", {"rejected"}).Increment();
    }
    if (!has_one_answer_) return;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
    registry_.Histogram("stagecoach_rpc_duration_seconds", {method_}).Observe(took.count());
  }

  MetricRegistry& registry_;
  const std::string method_;
  const bool has_one_answer_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

grpc::experimental::Interceptor* RpcMetrics::CreateServerInterceptor(ServerRpcInfo* info) {
  const absl::string_view method = info->method();
  if (!absl::StartsWith(method, kCounted)) return nullptr;
  return new CountedCall(registry_, std::string(method.substr(kCounted.size())),
                         info->type() == ServerRpcInfo::Type::UNARY);
}

}  // namespace stagecoach
