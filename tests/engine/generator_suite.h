// Suites of whole-generator tests that run on every backend; reference_generator_test.cpp and cpu_generator_test.cpp
// instantiate them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "ops/ops_backend.h"

namespace deepinfer {

// A backend and how much it runs: 0 a few short prompts (the reference is slow), 1 all golden prompts, 2 everything.
struct GeneratorCase {
  OpsBackend backend;
  int effort = 0;
};

inline std::ostream& operator<<(std::ostream& out, const GeneratorCase& c) {
  return out << c.backend.name;
}
inline std::string generator_case_name(const testing::TestParamInfo<GeneratorCase>& info) {
  return info.param.backend.name;
}

// The demonstration model, and generation that must succeed.
std::unique_ptr<Generator> open_generator(const OpsBackend& backend, GeneratorOptions options = {});
GenerationResult generate(Generator& generator, const std::vector<int32_t>& prompt, const GenerationParams& params);
std::vector<int32_t> tokens_of(const GenerationResult& result);
// Tokens, positions and log-probabilities, bit for bit.
void expect_same_answer(const GenerationResult& got, const GenerationResult& want, const std::string& what);

// Greedy, up to and with the end token, `most` tokens, with log-probabilities.
GenerationParams greedy_params(int64_t most, int drafts);

class GoldenGenerator : public testing::TestWithParam<GeneratorCase> {};  // golden_generator_suite.cpp
class Speculation : public testing::TestWithParam<GeneratorCase> {};      // speculation_suite.cpp
class Continuation : public testing::TestWithParam<GeneratorCase> {};     // continuation_suite.cpp
class TakenTokens : public testing::TestWithParam<GeneratorCase> {};      // taken_suite.cpp

}  // namespace deepinfer
