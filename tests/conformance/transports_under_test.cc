#include "tests/conformance/transport_conformance.h"
#include "worker/transport/in_process/in_process_transport.h"

namespace stagecoach {

INSTANTIATE_TEST_SUITE_P(Transports, TransportConformanceTest,
                         testing::Values(TransportUnderTest{
                             "in_process",
                             [] { return InProcessTransportFactory(std::make_shared<InProcessFabric>()); }}),
                         [](const testing::TestParamInfo<TransportUnderTest>& test) { return test.param.name; });

}  // namespace stagecoach
