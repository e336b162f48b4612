// -m/--model, --threads, --backend and what goes with it, of the commands that answer: `run` and `chat`, `batch`,
// `serve` and `bench throughput`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "models/weight_placement.h"
#include "ops/ops.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

void add_model_and_threads(CLI::App& command, std::optional<std::string>& model, std::optional<int32_t>& threads,
                           const char* group);

struct BackendChoice {
  std::string name = "cpu";
  std::optional<double> gpu_memory_utilization;
  std::optional<ExpertPlacement> expert_placement;
  std::optional<EngramPlacement> engram_placement;

  // With the defaults of what was not given.
  WeightPlacement placement() const;
};

// --backend, --gpu-memory-utilization, --expert-placement, --engram-placement.
void add_backend(CLI::App& command, BackendChoice& choice, const char* group);
// The backend that these options name.  kInvalidArgument for an option that it does not have; otherwise as
// make_named_backend.
Result<std::unique_ptr<Ops>> make_backend(const BackendChoice& choice, std::optional<int32_t> threads);

}  // namespace deepinfer::cli
