// Two synthetic models that differ in their weights alone, and a request that both answer.
#pragma once

#include <vector>

#include "engine/engine_run.h"
#include "models/synthetic_model.h"

namespace deepinfer {

struct TwoModels {
  TwoModels() {
    write_synthetic_model(first, synthetic_config(nlohmann::json::object()), 11);
    write_synthetic_model(second, synthetic_config(nlohmann::json::object()), 12);
    for (int32_t i = 0; i < 40; ++i) request.prompt.push_back(3 + i * 7 % 50);
    request.params = greedy_params(12, -1);
    request.params.stop_tokens.clear();
  }

  static EngineOptions options(const TemporaryFolder& model, const WeightPlacement& placement = {}) {
    EngineOptions options;
    options.model = model.path();
    options.placement = placement;
    options.max_context = 256;
    options.cache_bytes = 4 << 20;
    options.max_sequences = 2;
    return options;
  }

  std::vector<GeneratedToken> answer(EngineRun& run) const {
    const RequestId id = run.submit(request).value();
    run.drain();
    return run.seen(id).tokens;
  }

  TemporaryFolder first, second;
  EngineRequest request;
};

}  // namespace deepinfer
