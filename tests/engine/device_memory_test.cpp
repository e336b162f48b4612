// Generator and engine over a backend whose memory the host cannot look into: answers are those of the same backend in
// the host's memory, bit for bit.
#include "backends/cpu_backends.h"
#include "engine/company_suite.h"
#include "ops/guarded_ops.h"

namespace deepinfer {
namespace {

const CpuIsa kBest = machine_paths().back();
const OpsBackend kGuarded{"guarded", [] { return std::make_unique<GuardedOps>(make_cpu_path(kBest, 1)); }};
const OpsBackend kHost{"host", [] { return make_cpu_path(kBest, 1); }};

const GeneratorCase kGenerator{kGuarded, 1};
INSTANTIATE_TEST_SUITE_P(DeviceMemory, GoldenGenerator, testing::Values(kGenerator), generator_case_name);

const CompanyCase kCompany{kGuarded, kHost, 1, 6};
INSTANTIATE_TEST_SUITE_P(DeviceMemory, Company, testing::Values(kCompany), company_case_name);

INSTANTIATE_TEST_SUITE_P(DeviceMemory, OtherWeights, testing::Values(kCompany), company_case_name);

const CompanyCase kInHost{kHost, kHost, 1, 6};
INSTANTIATE_TEST_SUITE_P(Memories, WeightPlacements, testing::Values(kCompany, kInHost), company_case_name);

}  // namespace
}  // namespace deepinfer
