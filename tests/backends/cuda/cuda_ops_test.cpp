// The suites of tests/ops on the CUDA backend: on a GPU (skipped where there is none), and under emulation.
#include "backends/cuda_backends.h"
#include "ops/contract_suite.h"
#include "ops/golden_ops.h"
#include "ops/host_operand_ops.h"
#include "ops/row_invariance.h"
#include "ops/sampler_suite.h"

namespace deepinfer {
namespace {

// With operands in the host's memory.
std::vector<OpsBackend> backends() {
  std::vector<OpsBackend> backends = cuda_backends();
  for (OpsBackend& backend : backends)
    backend.make = [make = backend.make] { return std::make_unique<HostOperandOps>(make()); };
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Cuda, GoldenOps, golden_parameters(backends()), golden_name);
INSTANTIATE_TEST_SUITE_P(Cuda, OpsContract, testing::ValuesIn(backends()), backend_name);
INSTANTIATE_TEST_SUITE_P(Cuda, Sampler, testing::ValuesIn(backends()), backend_name);
INSTANTIATE_TEST_SUITE_P(Cuda, RowInvariance, testing::ValuesIn(backends()), backend_name);

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenOps);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpsContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Sampler);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RowInvariance);

TEST(CudaOps, HasAGpu) {
  expect_gpu_or_skip();
}

}  // namespace
}  // namespace deepinfer
