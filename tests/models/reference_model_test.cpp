// The whole model on the reference operations: short prompts, because they are slow.
#include "models/model_suites.h"

namespace deepinfer {
namespace {

const ModelCase kReference{
    {"reference", make_reference_ops}, 150, {129}, {"chat", "json", "odd", "story", "thinking", "turns"}};

INSTANTIATE_TEST_SUITE_P(Reference, GoldenModel, testing::Values(kReference), model_case_name);
INSTANTIATE_TEST_SUITE_P(Reference, ExactModel, testing::Values(kReference), model_case_name);

}  // namespace
}  // namespace deepinfer
