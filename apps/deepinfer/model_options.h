// -m/--model, --threads, --backend of the commands that answer: `run` and `chat`, `batch`, `serve` and `bench
// throughput`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "ops/ops.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

void add_model_and_threads(CLI::App& command, std::optional<std::string>& model, std::optional<int32_t>& threads,
                           const char* group);
// --backend and --gpu-memory-utilization.
void add_backend(CLI::App& command, std::string& backend, std::optional<double>& gpu_memory_utilization,
                 const char* group);
// The backend that these options name.  kInvalidArgument for an option that it does not have; otherwise as
// make_named_backend.
Result<std::unique_ptr<Ops>> make_backend(const std::string& backend, std::optional<double> gpu_memory_utilization,
                                          std::optional<int32_t> threads);

}  // namespace deepinfer::cli
