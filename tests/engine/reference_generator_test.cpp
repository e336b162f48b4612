// The generator on the reference operations: few and short prompts, because they are slow.
#include "engine/generator_suite.h"

namespace deepinfer {
namespace {

const GeneratorCase kReference{{"reference", make_reference_ops}, 0};

INSTANTIATE_TEST_SUITE_P(Reference, GoldenGenerator, testing::Values(kReference), generator_case_name);

}  // namespace
}  // namespace deepinfer
