// The engine on the best CPU path of this machine.
#include "backends/cpu_backends.h"
#include "engine/company_suite.h"

namespace deepinfer {
namespace {

const CpuIsa kBest = machine_paths().back();
#ifdef DEEPINFER_SANITIZED_BUILD  // many times slower
constexpr int kSchedules = 1, kRequests = 5;
#else
constexpr int kSchedules = 3, kRequests = 8;
#endif
const CompanyCase kCpu{{"cpu_" + std::string(to_string(kBest)), [] { return make_cpu_path(kBest, 2); }},
                       {"alone", [] { return make_cpu_path(kBest, 1); }},
                       kSchedules,
                       kRequests};

INSTANTIATE_TEST_SUITE_P(Cpu, Company, testing::Values(kCpu), company_case_name);

}  // namespace
}  // namespace deepinfer
