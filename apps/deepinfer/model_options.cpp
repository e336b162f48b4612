#include "model_options.h"

#include <CLI/CLI.hpp>

#include "backends/named_backend.h"
#include "number_option.h"

namespace deepinfer::cli {

void add_model_and_threads(CLI::App& command, std::optional<std::string>& model, std::optional<int32_t>& threads,
                           const char* group) {
  command
      .add_option("-m,--model", model,
                  "model folder, or repository id in the local Hugging Face cache (default: $DEEPINFER_MODEL, else "
                  "DeepSeek-V4.1-Tiny beside the program)")
      ->type_name("MODEL")
      ->group(group);
  add_number<int32_t>(command, "--threads", threads, {.lowest = 1, .highest = 1024},
                      "threads (default: one per physical core); never changes an answer")
      ->group(group);
}

void add_backend(CLI::App& command, std::string& backend, std::optional<double>& gpu_memory_utilization,
                 const char* group) {
  command
      .add_option_function<std::string>(
          "--backend",
          [&backend](const std::string& name) {
            if (!is_backend_name(name))
              throw CLI::ValidationError("--backend",
                                         "`" + name + "` is not allowed, allowed: " + std::string(backend_names()));
            backend = name;
          },
          "cpu (default); cuda: the GPU; or reference: plain C++, slow, the oracle")
      ->type_name("NAME")
      ->group(group);
  add_number<double>(command, "--gpu-memory-utilization", gpu_memory_utilization,
                     {.lowest = 0, .highest = 1, .lowest_excluded = true},
                     "with --backend cuda: share of the GPU's memory that may be in use (default: 0.9)")
      ->group(group);
}

Result<std::unique_ptr<Ops>> make_backend(const std::string& backend, std::optional<double> gpu_memory_utilization,
                                          std::optional<int32_t> threads) {
  if (gpu_memory_utilization && backend != "cuda")
    return invalid_argument("--gpu-memory-utilization is given, but --backend is " + backend +
                            "; allowed: with --backend cuda");
  BackendOptions options;
  options.name = backend;
  options.threads.threads = threads.value_or(0);
  options.gpu_memory_utilization = gpu_memory_utilization.value_or(kGpuMemoryUtilization);
  return make_named_backend(options, "--backend");
}

}  // namespace deepinfer::cli
