// Generator: one model, one sequence at a time.  What `deepinfer run` and `deepinfer chat` stand on; the many-request
// engine has the same per-request semantics.  Not thread-safe: one generate() at a time, cancel() from anywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace deepinfer {

enum class PrefillMode {
  kExact,          // rows that cannot reach the answer are skipped; bit-identical to running everything (v41-model.md 3.3)
  kFull,           // every row through every layer
  kBoundedReplay,  // DeepInfer's approximation: the decoder half sees the last replay_tokens prompt tokens only
};

inline constexpr int64_t kDefaultPrefillChunk = 512;

struct GeneratorOptions {
  std::filesystem::path model;      // folder with config.json, tokenizer.json, safetensors
  int64_t max_context = 0;          // tokens; 0: the model's own maximum
  int64_t prefill_chunk = 0;        // rows a prefill step; 0: kDefaultPrefillChunk.  Never changes the answer
  PrefillMode prefill = PrefillMode::kExact;
  int64_t replay_tokens = 140;      // kBoundedReplay only
};

// What a request asks for.  Ranges are checked by validate().
struct GenerationParams {
  float temperature = 1;            // [0, inf); below 1e-5: greedy
  float top_p = 1;                  // (0, 1]
  float min_p = 0;                  // [0, 1]
  int32_t top_k = 0;                // >= 0; 0: off
  float repetition_penalty = 1;     // (0, inf)
  float presence_penalty = 0;       // [-2, 2]
  float frequency_penalty = 0;      // [-2, 2]
  uint64_t seed = 0;
  int64_t max_tokens = 0;           // 0: up to the context length
  std::vector<LogitBias> logit_bias;
  std::vector<int32_t> stop_tokens; // generation ends with the first of these; it is reported but is not part of the answer
  int32_t logprobs = -1;            // as SamplingRow
  bool raw_logprobs = false;
  int32_t draft_tokens = -1;        // drafts verified a round: -1 the model's own number, 0 no speculation.  Never changes the answer
};

// A message naming the field, its value and the allowed range.
Status validate(const GenerationParams& params, int32_t vocabulary);

struct GeneratedToken {
  int32_t token = 0;
  int64_t position = 0;             // in the whole sequence
  float logprob = 0;                // where asked for
  std::vector<TokenLogprob> top_logprobs;
};

enum class FinishReason { kStop, kLength, kCancelled };

struct GenerationResult {
  std::vector<GeneratedToken> tokens;  // the final stop token included
  FinishReason finish = FinishReason::kStop;
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;        // prompt tokens whose state was still there from the previous call
  int64_t rounds = 0;               // decode steps
  int64_t drafted = 0;              // draft tokens verified
  int64_t accepted = 0;             // draft tokens delivered
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

class Generator {
 public:
  // ops: the backend, made by the executable (make_reference_ops, make_cpu_ops): libraries do not link backends.
  static Result<std::unique_ptr<Generator>> open(const GeneratorOptions& options, std::unique_ptr<Ops> ops);
  virtual ~Generator() = default;

  // Runs the prompt and generates.  on_tokens gets the tokens of each step as they are decided (never empty); it returns
  // false to stop (FinishReason::kStop).  A prompt that extends the previous call's sequence goes on from its state, with the same bits.
  // Errors: empty prompt, token out of the vocabulary, prompt longer than the context (both numbers named), params.
  virtual Result<GenerationResult> generate(std::span<const int32_t> prompt, const GenerationParams& params,
                                            FunctionRef<bool(std::span<const GeneratedToken>)> on_tokens) = 0;

  // Ends the running generate() within one step with FinishReason::kCancelled.  Safe in a signal handler.
  virtual void cancel() = 0;

  virtual int32_t vocabulary() const = 0;
  virtual int64_t max_context() const = 0;
  virtual std::string_view backend_name() const = 0;   // "cpu/avx512", ...
};

}  // namespace deepinfer
