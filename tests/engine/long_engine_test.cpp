// The engine on every CPU path of this machine with several numbers of threads: 210 schedules in all on a machine with
// AMX.
#include "backends/cpu_backends.h"
#include "engine/company_suite.h"

namespace deepinfer {
namespace {

std::vector<CompanyCase> cases() {
  std::vector<CompanyCase> list;
  const std::vector<CpuIsa> paths = machine_paths();
  for (const CpuIsa isa : paths) {
    for (const int threads : {1, 3}) {
      const int schedules = 210 / static_cast<int>(2 * paths.size());
      list.push_back({{"cpu_" + std::string(to_string(isa)) + "_threads" + std::to_string(threads),
                       [isa, threads] { return make_cpu_path(isa, threads); }},
                      {"alone", [isa] { return make_cpu_path(isa, 1); }},
                      schedules,
                      10});
    }
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Long, Company, testing::ValuesIn(cases()), company_case_name);

}  // namespace
}  // namespace deepinfer
