#include "ops/contract_suite.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Reference, OpsContract, testing::Values(OpsBackend{"reference", make_reference_ops}),
                         backend_name);

}  // namespace
}  // namespace deepinfer
