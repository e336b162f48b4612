// The engine on the best CPU path of this machine.
#include "backends/cpu_backends.h"
#include "engine/company_suite.h"

namespace deepinfer {
namespace {

const CpuIsa kBest = machine_paths().back();
const CompanyCase kCpu{{"cpu_" + std::string(to_string(kBest)), [] { return make_cpu_path(kBest, 2); }}, 3, 8};

INSTANTIATE_TEST_SUITE_P(Cpu, Company, testing::Values(kCpu), company_case_name);

}  // namespace
}  // namespace deepinfer
