// The options that `run` and `chat` share: which model, how it runs, how it samples, how the turn is put.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/generator.h"
#include "generation_defaults.h"
#include "model_options.h"
#include "text/conversation.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace deepinfer::cli {

struct GenerationOptions {
  // The model and how it runs.
  std::optional<std::string> model;
  std::optional<int32_t> threads;
  std::optional<int64_t> max_context;
  std::optional<int64_t> prefill_chunk;
  PrefillMode prefill = PrefillMode::kExact;
  BackendChoice backend;
  std::optional<std::string> kv_cache;  // folder
  std::optional<double> kv_cache_size;  // GB

  // The turn.
  std::string system;
  bool thinking = false;
  std::optional<Effort> effort;  // given: thinking is on
  bool show_reasoning = false;
  std::vector<std::string> stop;
  bool ignore_end = false;  // end tokens do not end the answer and are not shown

  // Sampling; what is not given comes from the model's generation_config.json.
  std::optional<int64_t> max_tokens;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<int32_t> top_k;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<uint64_t> seed;
  std::optional<int32_t> draft_tokens;
  SpeculativeSampling speculative_sampling = SpeculativeSampling::kExact;

  bool verbose = false;

  bool thinks() const { return thinking || effort.has_value(); }
};

// Adds all of them to a command; ranges are checked while the command line is read.
void add_generation_options(CLI::App& command, GenerationOptions& options);

// Parameters of the first answer: options over the model's defaults; a random seed where none is given.
GenerationParams generation_params(const GenerationOptions& options, const GenerationDefaults& defaults);

// --speculative-sampling.
CLI::Option& add_speculative_sampling(CLI::App& command, SpeculativeSampling& target);

// A seed from the system's entropy.
uint64_t random_seed();

}  // namespace deepinfer::cli
