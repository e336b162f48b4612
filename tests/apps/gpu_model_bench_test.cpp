// `deepinfer bench gpu-model` without a GPU: its steps on small dimensions.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "backends/cpu/cpu_ops.h"
#include "bench/gpu_model.h"
#include "ops/guarded_ops.h"

namespace deepinfer::bench {
namespace {

// On the processor, with operands in pages that nothing else may touch, as on a GPU.
TEST(GpuModelBench, StepsStandBesideTheirLimits) {
  CpuOpsOptions cpu;
  cpu.threads.threads = 1;
  GuardedOps ops(make_cpu_ops(cpu).value());
  GpuModelOptions options;
  options.config = deepseek_v41::load_config(DEEPINFER_TEST_MODEL).value();
  options.expert_layers = 3;
  options.batch = {1, 3};
  options.context = {300};
  options.prefill = {70};
  options.chunk = 64;
  options.samples = 2;
  options.profile = true;
  options.read = 1e9;
  options.peak = 1e9;
  std::vector<BenchResult> results;
  const auto keep = [&](const BenchResult& result) { results.push_back(result); };
  const Status status = bench_gpu_model(options, ops, keep);
  ASSERT_TRUE(status.ok()) << status.to_string();
  std::map<std::string, BenchResult> by_name;
  for (const BenchResult& result : results) by_name[result.name] = result;
  for (const char* name : {"decode, batch 1, context 300", "decode, batch 3, context 300", "prefill of 70 tokens"}) {
    ASSERT_TRUE(by_name.contains(name)) << name;
    EXPECT_GT(by_name[name].value, 0);
    EXPECT_GT(by_name[name].limit.value_or(0), 0);
  }
  EXPECT_TRUE(by_name.contains("batch 3, context 300: mixture_of_experts"));
}

}  // namespace
}  // namespace deepinfer::bench
