// Long prompts: past the window's whole reach, index_topk and the candidate pool.
#include "backends/cpu_backends.h"
#include "models/model_suites.h"

namespace deepinfer {
namespace {

std::vector<ModelCase> cases() {
  std::vector<ModelCase> list;
  for (const CpuIsa isa : machine_paths()) {
    for (const int64_t tokens : {400, 700, 1001, 1529}) {
      list.push_back({{"cpu_" + std::string(to_string(isa)), [isa] { return make_cpu_path(isa, 2); }},
                      tokens,
                      {1, 3, 7, 100, 127, 128, 129, 257},
                      {"chat", "json", "json_schema", "multilingual", "odd", "recall", "story", "thinking", "tool_call",
                       "tool_result", "turns"}});
    }
  }
  list.push_back({{"reference", make_reference_ops}, 700, {7, 257}, {"recall", "multilingual", "tool_call"}});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Long, GoldenModel, testing::ValuesIn(cases()), model_case_name);
INSTANTIATE_TEST_SUITE_P(Long, ExactModel, testing::ValuesIn(cases()), model_case_name);

}  // namespace
}  // namespace deepinfer
