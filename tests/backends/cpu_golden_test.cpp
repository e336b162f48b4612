// The CPU paths against the goldens of every operation.
#include "backends/cpu_backends.h"
#include "ops/golden_ops.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, GoldenOps, golden_parameters(cpu_backends()), golden_name);

}  // namespace
}  // namespace deepinfer
