// SoloAnswers: a fixture with a generator that has no cache at all, whose answers those of engines above a tier must
// be.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"

namespace deepinfer {

class SoloAnswers : public testing::Test {
 protected:
  static inline const OpsBackend kBackend{"cpu", [] { return make_cpu_path(machine_paths().back(), 2); }};

  static void SetUpTestSuite() {
    GeneratorOptions options;
    options.max_context = 2048;
    solo_ = open_generator(kBackend, options).release();
  }
  static void TearDownTestSuite() { delete std::exchange(solo_, nullptr); }

  static void expect_solo_answer(EngineRun& engine, RequestId id, const EngineRequest& request,
                                 const std::string& what) {
    GenerationParams params = request.params;
    params.draft_tokens = 0;
    expect_same_tokens(engine.seen(id).tokens, generate(*solo_, request.prompt, params).tokens, what);
  }

 private:
  static inline Generator* solo_ = nullptr;
};

}  // namespace deepinfer
