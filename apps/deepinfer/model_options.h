// -m/--model, --threads and --backend of the commands that answer: `run` and `chat`, `batch`, `serve` and `bench
// throughput`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace deepinfer::cli {

void add_model_and_threads(CLI::App& command, std::optional<std::string>& model, std::optional<int32_t>& threads,
                           const char* group);
// --backend.
void add_backend(CLI::App& command, std::string& backend, const char* group);

}  // namespace deepinfer::cli
