// Everything on every CPU path of this machine.
#include "backends/cpu_backends.h"
#include "engine/generator_suite.h"

namespace deepinfer {
namespace {

std::vector<GeneratorCase> cases() {
  std::vector<GeneratorCase> list;
  for (const CpuIsa isa : machine_paths())
    list.push_back({{"cpu_" + std::string(to_string(isa)), [isa] { return make_cpu_path(isa, 2); }}, 2});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Long, GoldenGenerator, testing::ValuesIn(cases()), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Long, Speculation, testing::ValuesIn(cases()), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Long, Continuation, testing::ValuesIn(cases()), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Long, TakenTokens, testing::ValuesIn(cases()), generator_case_name);

}  // namespace
}  // namespace deepinfer
