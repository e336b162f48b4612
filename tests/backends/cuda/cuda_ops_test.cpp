// The suites of tests/ops on the CUDA backend: on a GPU (skipped where there is none), and under emulation.
#include "backends/cuda/cuda_ops.h"

#include "ops/contract_suite.h"
#include "ops/golden_ops.h"
#include "ops/host_operand_ops.h"
#include "ops/row_invariance.h"
#include "ops/sampler_suite.h"

namespace deepinfer {
namespace {

template <const char* kPath>
std::unique_ptr<Ops> make() {
  Result<std::unique_ptr<Ops>> ops = make_cuda_ops(kPath);
  DI_CHECK(ops.ok(), ops.status().message());
  return std::make_unique<HostOperandOps>(std::move(ops).value());
}

constexpr char kAny[] = "any", kSm90[] = "sm90";

// The paths that the GPU has; without a GPU none, and every suite is empty.
std::vector<OpsBackend> backends() {
  std::vector<OpsBackend> backends;
  if (make_cuda_ops(kAny).ok()) backends.push_back({"cuda_any", make<kAny>});
  if (make_cuda_ops(kSm90).ok()) backends.push_back({"cuda_sm90", make<kSm90>});
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

// Says why nothing ran.
TEST(CudaOps, HasAGpu) {
  const Result<std::unique_ptr<Ops>> ops = make_cuda_ops();
  if (!ops.ok()) GTEST_SKIP() << ops.status().to_string();
  EXPECT_TRUE((*ops)->name().starts_with("cuda/"));
}

}  // namespace
}  // namespace deepinfer
