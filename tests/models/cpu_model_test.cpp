// The whole model on the oldest and the newest CPU path of this machine.
#include <set>

#include "backends/cpu_backends.h"
#include "models/golden_prompts.h"
#include "models/model_run.h"
#include "models/model_suites.h"
#include "ops/guarded_ops.h"

namespace deepinfer {
namespace {

// 301 tokens: more than index_topk rows of either ratio.  The best path runs the most; models_long_test runs
// everything.
std::vector<ModelCase> cases() {
  std::vector<ModelCase> list;
  for (const CpuIsa isa : std::set{machine_paths().front(), machine_paths().back()}) {
    const bool best = isa == machine_paths().back();
    list.push_back({{"cpu_" + std::string(to_string(isa)), [isa, best] { return make_cpu_path(isa, best ? 2 : 1); }},
                    270,
                    best ? std::vector<int64_t>{1, 7, 129} : std::vector<int64_t>{127},
                    {"chat", "json", "multilingual", "odd", "thinking", "tool_call", "tool_result", "turns"}});
  }
  // In memory that the host cannot look into.
  list.push_back({{"guarded", [] { return std::make_unique<GuardedOps>(make_cpu_path(machine_paths().back(), 1)); }},
                  130,
                  {7},
                  {"chat"}});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Cpu, GoldenModel, testing::ValuesIn(cases()), model_case_name);
INSTANTIATE_TEST_SUITE_P(Cpu, ExactModel, testing::ValuesIn(cases()), model_case_name);

TEST(CpuModel, ThreadsChangeNothing) {
  const auto ids = ForwardGolden("json_schema").ids();
  for (const CpuIsa isa : std::set{machine_paths().front(), machine_paths().back()}) {
    std::vector<Logits> results;
    for (const int threads : {1, 2, 3}) {
      LoadedModel loaded({"cpu", [isa, threads] { return make_cpu_path(isa, threads); }});
      SequenceRun run(loaded);
      results.push_back(run.run(ids, 40, 0));
    }
    EXPECT_TRUE(results[0] == results[1] && results[0] == results[2]) << to_string(isa);
  }
}

}  // namespace
}  // namespace deepinfer
