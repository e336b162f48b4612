// The whole model on the reference operations: short prompts, because they are slow (models_long_test runs the rest).
#include "models/model_suites.h"

namespace deepinfer {
namespace {

const ModelCase kReference{{"reference", make_reference_ops}, 0, {}, {"chat", "json", "odd", "turns"}};

INSTANTIATE_TEST_SUITE_P(Reference, GoldenModel, testing::Values(kReference), model_case_name);

}  // namespace
}  // namespace deepinfer
