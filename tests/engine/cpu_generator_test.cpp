// The generator on the best CPU path of this machine.
#include "backends/cpu_backends.h"
#include "engine/generator_suite.h"

namespace deepinfer {
namespace {

const CpuIsa kBest = machine_paths().back();
const GeneratorCase kCpu{{"cpu_" + std::string(to_string(kBest)), [] { return make_cpu_path(kBest, 2); }}, 1};

INSTANTIATE_TEST_SUITE_P(Cpu, GoldenGenerator, testing::Values(kCpu), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Cpu, Speculation, testing::Values(kCpu), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Cpu, Continuation, testing::Values(kCpu), generator_case_name);
INSTANTIATE_TEST_SUITE_P(Cpu, TakenTokens, testing::Values(kCpu), generator_case_name);

}  // namespace
}  // namespace deepinfer
