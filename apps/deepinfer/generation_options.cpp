#include "generation_options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <random>

#include "model_options.h"
#include "number_option.h"

namespace deepinfer::cli {
namespace {

void add_model_options(CLI::App& command, GenerationOptions& options) {
  constexpr const char* kGroup = "Model";
  add_model_and_threads(command, options.model, options.threads, kGroup);
  add_number<int32_t>(command, "--draft-tokens", options.draft_tokens, {.lowest = 0, .highest = 64},
                      "drafts verified a round (default: as many as pay, 0: none); never changes the answer, but with "
                      "--speculative-sampling rejection")
      ->group(kGroup);
  add_number<int64_t>(command, "--prefill-chunk", options.prefill_chunk, {.lowest = 1, .highest = 65536},
                      "prompt tokens a step (default: 2048; 512 for models below 1 GiB); never changes the answer")
      ->group(kGroup);
  static const std::map<std::string, PrefillMode> kModes = {
      {"exact", PrefillMode::kExact}, {"full", PrefillMode::kFull}, {"bounded-replay", PrefillMode::kBoundedReplay}};
  command
      .add_option_function<std::string>(
          "--prefill",
          [&options](const std::string& name) {
            const auto mode = kModes.find(name);
            if (mode == kModes.end())
              throw CLI::ValidationError("--prefill",
                                         "`" + name + "` is not allowed, allowed: exact, full, bounded-replay");
            options.prefill = mode->second;
          },
          "exact (default): skip what cannot reach the answer, same bits; full: skip nothing, same bits; "
          "bounded-replay: faster, approximate")
      ->type_name("MODE")
      ->group(kGroup);
  add_number<int64_t>(command, "--max-context", options.max_context, {.lowest = 1},
                      "longest sequence in tokens (default: the model's own)")
      ->group(kGroup);
  add_backend(command, options.backend, kGroup);
  auto* folder =
      command
          .add_option("--kv-cache", options.kv_cache,
                      "keep what is computed of prompts and answers in FOLDER, and begin with what is there; "
                      "never changes the answer")
          ->type_name("FOLDER")
          ->group(kGroup);
  add_number<double>(command, "--kv-cache-size", options.kv_cache_size, {.lowest = 0.01, .highest = 1e6},
                     "GB in that folder (default: 10); what was not used for longest goes first")
      ->needs(folder)
      ->group(kGroup);
}

void add_turn_options(CLI::App& command, GenerationOptions& options) {
  constexpr const char* kGroup = "Turn";
  command.add_option("--system", options.system, "the system message")->type_name("TEXT")->group(kGroup);
  command.add_flag("--thinking", options.thinking, "let the model reason before it answers")->group(kGroup);
  command
      .add_option_function<std::string>(
          "--reasoning-effort",
          [&options](const std::string& text) {
            static const std::map<std::string, EffortLevel> kLevels = {{"low", EffortLevel::kLow},
                                                                       {"high", EffortLevel::kHigh},
                                                                       {"xhigh", EffortLevel::kXHigh},
                                                                       {"max", EffortLevel::kMax}};
            Effort effort;
            if (const auto level = kLevels.find(text); level != kLevels.end()) {
              effort.level = level->second;
            } else {
              const Result<int32_t> number = parse_number<int32_t>(text, {.lowest = 1, .highest = 100});
              if (!number.ok())
                throw CLI::ValidationError(
                    "--reasoning-effort",
                    "`" + text + "` is not allowed, allowed: low, high, xhigh, max, or a number in [1, 100]");
              effort.number = *number;
            }
            options.effort = effort;
          },
          "low, high (default), xhigh, max or 1..100; turns --thinking on")
      ->type_name("EFFORT")
      ->group(kGroup);
  command
      .add_flag("--show-reasoning", options.show_reasoning,
                "reasoning to standard output, between <think> and </think>")
      ->group(kGroup);
  command.add_option("--stop", options.stop, "end the answer before this text (may be repeated)")
      ->type_name("TEXT")
      ->group(kGroup)
      ->expected(1)
      ->allow_extra_args(false)  // what follows its text is the prompt
      ->take_all();
  command.add_flag("--ignore-end", options.ignore_end, "go on after the end token, up to --max-tokens")->group(kGroup);
}

void add_sampling_options(CLI::App& command, GenerationOptions& options) {
  constexpr const char* kGroup = "Sampling (defaults: the model's generation_config.json)";
  add_number<int64_t>(command, "--max-tokens", options.max_tokens, {.lowest = 1},
                      "most tokens of the answer, reasoning included")
      ->group(kGroup);
  add_number<float>(command, "--temperature", options.temperature, {.lowest = 0}, "0: always the most likely token")
      ->group(kGroup);
  add_number<float>(command, "--top-p", options.top_p, {.lowest = 0, .highest = 1, .lowest_excluded = true},
                    "keep the most likely tokens of this total probability")
      ->group(kGroup);
  add_number<int32_t>(command, "--top-k", options.top_k, {.lowest = 0}, "keep this many most likely tokens (0: all)")
      ->group(kGroup);
  add_number<float>(command, "--min-p", options.min_p, {.lowest = 0, .highest = 1},
                    "drop tokens below this share of the most likely one")
      ->group(kGroup);
  add_number<float>(command, "--repetition-penalty", options.repetition_penalty,
                    {.lowest = kLeastRepetitionPenalty, .highest = kMostRepetitionPenalty},
                    "divides positive scores of tokens seen before (1: off)")
      ->group(kGroup);
  add_number<float>(command, "--presence-penalty", options.presence_penalty, {.lowest = -2, .highest = 2},
                    "subtracted from tokens of the answer so far")
      ->group(kGroup);
  add_number<float>(command, "--frequency-penalty", options.frequency_penalty, {.lowest = -2, .highest = 2},
                    "the same for each time a token occurred")
      ->group(kGroup);
  add_number<uint64_t>(command, "--seed", options.seed, {.lowest = 0},
                       "same seed, same answer (default: random, shown by --verbose)")
      ->group(kGroup);
  add_speculative_sampling(command, options.speculative_sampling).group(kGroup);
}

}  // namespace

CLI::Option& add_speculative_sampling(CLI::App& command, SpeculativeSampling& target) {
  const auto read = [&target](const std::string& name) {
    if (name != "exact" && name != "rejection")
      throw CLI::ValidationError("--speculative-sampling", "`" + name + "` is not allowed, allowed: exact, rejection");
    target = name == "exact" ? SpeculativeSampling::kExact : SpeculativeSampling::kRejection;
  };
  return *command
              .add_option_function<std::string>("--speculative-sampling", read,
                                                "exact (default): drafts never change an answer; rejection: some more "
                                                "drafts are taken, the answer is as "
                                                "probable but another one")
              ->type_name("NAME");
}

void add_generation_options(CLI::App& command, GenerationOptions& options) {
  add_model_options(command, options);
  add_turn_options(command, options);
  add_sampling_options(command, options);
  command.add_flag("-v,--verbose", options.verbose, "seed, tokens/s and draft statistics on standard error");
}

GenerationParams generation_params(const GenerationOptions& options, const GenerationDefaults& defaults) {
  GenerationParams params;
  const auto pick = [](auto& target, const auto& given, const auto& fallback) {
    if (given) {
      target = *given;
    } else if (fallback) {
      target = *fallback;
    }
  };
  pick(params.temperature, options.temperature, defaults.temperature);
  pick(params.top_p, options.top_p, defaults.top_p);
  pick(params.min_p, options.min_p, defaults.min_p);
  pick(params.top_k, options.top_k, defaults.top_k);
  pick(params.repetition_penalty, options.repetition_penalty, defaults.repetition_penalty);
  params.presence_penalty = options.presence_penalty.value_or(0);
  params.frequency_penalty = options.frequency_penalty.value_or(0);
  params.max_tokens = options.max_tokens.value_or(0);
  params.draft_tokens = options.draft_tokens.value_or(-1);
  params.speculative_sampling = options.speculative_sampling;
  params.seed = options.seed ? *options.seed : random_seed();
  if (!options.ignore_end) params.stop_tokens = defaults.end_tokens;
  return params;
}

uint64_t random_seed() {
  std::random_device entropy;
  return (static_cast<uint64_t>(entropy()) << 32) | entropy();
}

}  // namespace deepinfer::cli
