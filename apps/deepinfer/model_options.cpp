#include "model_options.h"

#include <CLI/CLI.hpp>

#include "backends/named_backend.h"
#include "choice_option.h"
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

WeightPlacement BackendChoice::placement() const {
  const WeightPlacement defaults;
  return {expert_placement.value_or(defaults.experts), engram_placement.value_or(defaults.engram)};
}

void add_backend(CLI::App& command, BackendChoice& choice, const char* group) {
  command
      .add_option_function<std::string>(
          "--backend",
          [&choice](const std::string& name) {
            if (!is_backend_name(name))
              throw CLI::ValidationError("--backend",
                                         "`" + name + "` is not allowed, allowed: " + std::string(backend_names()));
            choice.name = name;
          },
          "cpu (default); cuda: the GPU; or reference: plain C++, slow, the oracle")
      ->type_name("NAME")
      ->group(group);
  add_number<double>(command, "--gpu-memory-utilization", choice.gpu_memory_utilization,
                     {.lowest = 0, .highest = 1, .lowest_excluded = true},
                     "with --backend cuda: share of the GPU's memory that may be in use (default: 0.9)")
      ->group(group);
  add_choice<ExpertPlacement>(
      command, "--expert-placement", choice.expert_placement,
      {{"device", ExpertPlacement::kDevice}, {"host", ExpertPlacement::kHost}},
      "with --backend cuda: device (default), the GPU's memory; or host: the GPU reads a step's experts from the "
      "machine's memory, slowly, so that less of its own is needed; never changes an answer",
      group);
  add_choice<EngramPlacement>(
      command, "--engram-placement", choice.engram_placement,
      {{"device", EngramPlacement::kDevice}, {"host", EngramPlacement::kHost}, {"disk", EngramPlacement::kDisk}},
      "where Engram tables lie: disk (default), rows are read from the mapped file; host: read into memory at start; "
      "device, with --backend cuda: the GPU's memory; never changes an answer",
      group);
}

Result<std::unique_ptr<Ops>> make_backend(const BackendChoice& choice, std::optional<int32_t> threads) {
  const auto refuse = [&](const char* option) {
    return invalid_argument(std::string(option) + " is given, but --backend is " + choice.name +
                            "; allowed: with --backend cuda");
  };
  if (choice.name != "cuda") {
    if (choice.gpu_memory_utilization) return refuse("--gpu-memory-utilization");
    if (choice.expert_placement) return refuse("--expert-placement");
    if (choice.engram_placement == EngramPlacement::kDevice)
      return invalid_argument("--engram-placement is device, but --backend is " + choice.name +
                              "; allowed: host, disk, or device with --backend cuda");
  }
  BackendOptions options;
  options.name = choice.name;
  options.threads.threads = threads.value_or(0);
  options.gpu_memory_utilization = choice.gpu_memory_utilization.value_or(kGpuMemoryUtilization);
  return make_named_backend(options, "--backend");
}

}  // namespace deepinfer::cli
