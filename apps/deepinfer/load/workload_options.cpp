#include "load/workload_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "number_option.h"

namespace deepinfer::cli {

WorkloadOptions WorkloadCommandOptions::workload(int32_t draft_tokens) const {
  WorkloadOptions workload = named;
  workload.prompt_tokens = prompt_tokens.value_or(workload.prompt_tokens);
  workload.answer_tokens = answer_tokens.value_or(workload.answer_tokens);
  workload.spread = spread.value_or(0);
  workload.temperature = temperature.value_or(0);
  workload.draft_tokens = draft_tokens;
  workload.seed = seed.value_or(0);
  return workload;
}

void add_workload_options(CLI::App& command, WorkloadCommandOptions& options) {
  constexpr const char* kGroup = "Workload";
  command
      .add_option_function<std::string>(
          "--workload",
          [&options](const std::string& name) {
            options.named.kind = name == "random"     ? WorkloadOptions::Kind::kRandom
                                 : name == "sharegpt" ? WorkloadOptions::Kind::kChat
                                                      : WorkloadOptions::Kind::kFile;
            options.named.file = name;
          },
          "random (default), sharegpt, or a file of JSON lines")
      ->type_name("NAME|FILE")
      ->group(kGroup);
  add_number<int64_t>(command, "--prompt-tokens", options.prompt_tokens, {.lowest = 1, .highest = 1 << 20},
                      "length of random prompts (default: 64)")
      ->group(kGroup);
  add_number<int64_t>(command, "--answer-tokens", options.answer_tokens, {.lowest = 1, .highest = 1 << 20},
                      "length of answers (default: 128)")
      ->group(kGroup);
  add_number<double>(command, "--spread", options.spread, {.lowest = 0, .highest = 1},
                     "random lengths are uniform within this share of them (default: 0)")
      ->group(kGroup);
  add_number<int64_t>(command, "--requests", options.requests, {.lowest = 1, .highest = 10'000'000},
                      "how many (default: 4 times the concurrency)")
      ->group(kGroup);
  add_number<float>(command, "--temperature", options.temperature, {.lowest = 0}, "of the sampling (default: 0)")
      ->group(kGroup);
  add_number<uint64_t>(command, "--seed", options.seed, {.lowest = 0}, "of prompts and sampling (default: 0)")
      ->group(kGroup);
}

}  // namespace deepinfer::cli
