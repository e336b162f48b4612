// The whole model on every CUDA path of this machine's GPU.
#include "backends/cuda_backends.h"
#include "models/model_suites.h"

namespace deepinfer {
namespace {

// 270 tokens: more than index_topk rows of either ratio.
std::vector<ModelCase> cases() {
  std::vector<ModelCase> list;
  for (const OpsBackend& backend : cuda_backends())
    list.push_back({backend,
                    270,
                    {1, 7, 129},
                    {"chat", "json", "json_schema", "multilingual", "odd", "recall", "story", "thinking", "tool_call",
                     "tool_result", "turns"}});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Cuda, GoldenModel, testing::ValuesIn(cases()), model_case_name);
INSTANTIATE_TEST_SUITE_P(Cuda, ExactModel, testing::ValuesIn(cases()), model_case_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenModel);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExactModel);

TEST(CudaModel, HasAGpu) {
  expect_gpu_or_skip();
}

}  // namespace
}  // namespace deepinfer
