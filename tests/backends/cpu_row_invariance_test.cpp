// The CPU paths: a row alone gives the bits of the row in a batch.
#include "backends/cpu_backends.h"
#include "ops/row_invariance.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, RowInvariance, testing::ValuesIn(cpu_backends()), backend_name);

}  // namespace
}  // namespace deepinfer
