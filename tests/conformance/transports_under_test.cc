#include "tests/conformance/transport_conformance.h"
#include "worker/transport/in_process/in_process_transport.h"
#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {
namespace {

TransportUnderTest Ucx(UcxMode mode) {
  return {std::string("ucx_") + UcxModeText(mode), [mode] { return UcxTransportFactory({.mode = mode}); }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    Transports, TransportConformanceTest,
    testing::Values(TransportUnderTest{"in_process",
                                       [] { return InProcessTransportFactory(std::make_shared<InProcessFabric>()); }},
                    Ucx(UcxMode::kTcp), Ucx(UcxMode::kShm), Ucx(UcxMode::kCma)),
    [](const testing::TestParamInfo<TransportUnderTest>& test) { return test.param.name; });

}  // namespace stagecoach
