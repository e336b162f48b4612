// Weights that are copied into a backend's memory are exchanged there.
#include "engine/company_suite.h"
#include "engine/engine_run.h"
#include "models/synthetic_model.h"

namespace deepinfer {
namespace {

TEST_P(OtherWeights, TakeThePlaceOfTheFirst) {
  const TemporaryFolder first, second;
  write_synthetic_model(first, synthetic_config(nlohmann::json::object()), 11);
  write_synthetic_model(second, synthetic_config(nlohmann::json::object()), 12);
  EngineRequest request;
  for (int32_t i = 0; i < 40; ++i) request.prompt.push_back(3 + i * 7 % 50);
  request.params = greedy_params(12, -1);
  request.params.stop_tokens.clear();
  const auto options = [](const TemporaryFolder& model) {
    EngineOptions options;
    options.model = model.path();
    options.max_context = 256;
    options.cache_bytes = 4 << 20;
    options.max_sequences = 2;
    return options;
  };
  const auto ask = [&](EngineRun& run) {
    const RequestId id = run.submit(request).value();
    run.drain();
    return run.seen(id).tokens;
  };
  EngineRun placed(GetParam().backend, options(first));
  EngineRun one(GetParam().solo, options(first));
  EngineRun other(GetParam().solo, options(second));
  expect_same_tokens(ask(placed), ask(one), "first weights");
  ASSERT_TRUE(placed.engine().update_weights({.folder = second.path(), .mode = PauseMode::kDrain}).ok());
  expect_same_tokens(ask(placed), ask(other), "other weights");
}

}  // namespace
}  // namespace deepinfer
