// Generator and engine on every CUDA path of this machine's GPU.
#include "backends/cuda_backends.h"
#include "engine/company_suite.h"
#include "engine/generator_suite.h"

namespace deepinfer {
namespace {

std::vector<GeneratorCase> generators() {
  std::vector<GeneratorCase> list;
  for (const OpsBackend& backend : cuda_backends()) list.push_back({backend, 1});
  return list;
}
std::vector<CompanyCase> companies() {
  std::vector<CompanyCase> list;
  for (const OpsBackend& backend : cuda_backends()) list.push_back({backend, backend, 4, 8});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Cuda, GoldenGenerator, testing::ValuesIn(generators()), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Cuda, Speculation, testing::ValuesIn(generators()), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Cuda, Continuation, testing::ValuesIn(generators()), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Cuda, TakenTokens, testing::ValuesIn(generators()), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Cuda, Company, testing::ValuesIn(companies()), company_case_name);
INSTANTIATE_TEST_SUITE_P(Cuda, OtherWeights, testing::ValuesIn(companies()), company_case_name);
INSTANTIATE_TEST_SUITE_P(Cuda, WeightPlacements, testing::ValuesIn(companies()), company_case_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenGenerator);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Speculation);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Continuation);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TakenTokens);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Company);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OtherWeights);

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WeightPlacements);

TEST(CudaEngine, HasAGpu) {
  expect_gpu_or_skip();
}

}  // namespace
}  // namespace deepinfer
