#include "ops/row_invariance.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Reference, RowInvariance, testing::Values(OpsBackend{"reference", make_reference_ops}),
                         backend_name);

}  // namespace
}  // namespace deepinfer
