// The CPU paths against the recorded choices of the sampler.
#include "backends/cpu_backends.h"
#include "ops/sampler_suite.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, Sampler, testing::ValuesIn(cpu_backends()), backend_name);

}  // namespace
}  // namespace deepinfer
