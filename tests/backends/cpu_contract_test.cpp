// The corners of the operations' contracts on the CPU paths.
#include "backends/cpu_backends.h"
#include "ops/contract_suite.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, OpsContract, testing::ValuesIn(cpu_backends()), backend_name);

}  // namespace
}  // namespace deepinfer
