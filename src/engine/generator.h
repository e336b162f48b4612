// Generator: one model, one sequence at a time.  What `deepinfer run` and `deepinfer chat` stand on; the many-request
// engine has the same per-request semantics.  Not thread-safe: one generate() at a time, cancel() from anywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "grammar/grammar_spec.h"
#include "models/weight_placement.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace deepinfer {

enum class PrefillMode {
  kExact,  // rows that cannot reach the answer are skipped; bit-identical to running everything (v41-model.md 3.3)
  kFull,   // every row through every layer
  kBoundedReplay,  // DeepInfer's approximation: the decoder half sees the last replay_tokens prompt tokens only
};

// Rows of a prefill step.  A row meets few of 384 experts: one step of 2048 rows reads the experts' weights once where
// four of 512 read them four times.  For a model that caches hold this only costs memory.
inline constexpr int64_t kSmallModelPrefillChunk = 512, kPrefillChunk = 2048;
// The one of them that fits the files of a model's folder.
int64_t default_prefill_chunk(const std::filesystem::path& model);
inline constexpr int64_t kDefaultReplayTokens = 140;

struct GeneratorOptions {
  std::filesystem::path model;  // folder with config.json, tokenizer.json, safetensors
  int64_t max_context = 0;      // tokens; 0: the model's own maximum
  int64_t prefill_chunk = 0;    // rows a prefill step; 0: default_prefill_chunk.  Never changes the answer
  WeightPlacement placement;    // where a device has a choice; never changes the answer
  PrefillMode prefill = PrefillMode::kExact;
  int64_t replay_tokens = kDefaultReplayTokens;  // kBoundedReplay only
};

// Bounds of what changes logits, so that no request can make finite logits infinite: those of any model are far below
// 1e20, and the sampler divides by temperatures of 1e-5 and more.
inline constexpr float kMostLogitBias = 1e9f;
inline constexpr float kLeastRepetitionPenalty = 1e-3f;
inline constexpr float kMostRepetitionPenalty = 1e3f;

// How drafts are verified (docs/engine.md, "Speculation").
enum class SpeculativeSampling : uint8_t {
  kExact,  // a draft is kept if it is the token that would have been chosen: drafts never change the answer
  // A draft is kept with the chance min(1, p / q): the answer has the same distribution, but which one it is depends on
  // the drafts, so it differs from the answer without drafts.  Greedy requests are as with kExact.
  kRejection,
};

// What a request asks for.  Ranges are checked by validate().
struct GenerationParams {
  float temperature = 1;         // [0, inf); below 1e-5: greedy
  float top_p = 1;               // (0, 1]
  float min_p = 0;               // [0, 1]
  int32_t top_k = 0;             // >= 0; 0: off
  float repetition_penalty = 1;  // [kLeastRepetitionPenalty, kMostRepetitionPenalty]
  float presence_penalty = 0;    // [-2, 2]
  float frequency_penalty = 0;   // [-2, 2]
  uint64_t seed = 0;
  int64_t max_tokens = 0;             // 0: up to the context length
  std::vector<LogitBias> logit_bias;  // each token once; [-kMostLogitBias, kMostLogitBias]
  // Generation ends with the first of these; it is reported but is not part of the answer.
  std::vector<int32_t> stop_tokens;
  int32_t logprobs = -1;  // as SamplingRow
  bool raw_logprobs = false;
  // Drafts verified a round: -1 the model's own number, 0 no speculation.  Never changes the answer, but for
  // kRejection.
  int32_t draft_tokens = -1;
  SpeculativeSampling speculative_sampling = SpeculativeSampling::kExact;
};

// A message naming the field, its value and the allowed range.
Status validate(const GenerationParams& params, int32_t vocabulary);

struct GeneratedToken {
  int32_t token = 0;
  int64_t position = 0;  // in the whole sequence
  float logprob = 0;     // where asked for
  std::vector<TokenLogprob> top_logprobs;
};

// Where an answer is not the one that the promises speak of (docs/architecture.md), because somebody asked for it.
struct AnswerMarks {
  bool rejection_sampled = false;  // SpeculativeSampling::kRejection: another answer than without drafts
  bool bounded_prefix = false;     // layers saw the end of the prompt only: an approximation
};

enum class FinishReason { kStop, kLength, kCancelled };

// What a consumer did with the tokens that it was given.  A bool says: all were taken, and whether more are wanted.
struct Taken {
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();

  Taken(bool more) : more(more) {}
  // The answer ends with the first `count` of the tokens given, count <= their number; the others never were.
  static Taken last(size_t count) {
    Taken taken(false);
    taken.tokens = count;
    return taken;
  }

  size_t tokens = kAll;
  bool more;
};

struct GenerationResult {
  std::vector<GeneratedToken> tokens;  // that were taken; the final stop token included
  FinishReason finish = FinishReason::kStop;
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;  // prompt tokens whose state was still there from the previous call
  int64_t disk_tokens = 0;    // of these, brought from a folder of earlier work (engine_generator.h)
  int64_t rounds = 0;         // decode steps
  int64_t drafted = 0;        // draft tokens verified
  int64_t accepted = 0;       // draft tokens delivered
  AnswerMarks marks;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

class Generator {
 public:
  // ops: the backend, made by the executable (make_reference_ops, make_cpu_ops): libraries do not link backends.
  // kResourceExhausted naming what had no room; other errors are those of the model (models/open_model.h).
  static Result<std::unique_ptr<Generator>> open(const GeneratorOptions& options, std::unique_ptr<Ops> ops);
  virtual ~Generator() = default;

  // Runs the prompt and generates.  on_tokens gets the tokens of each step as they are decided (never empty) and says
  // how many of them it took.  Where it stops, the result and the sequence end with the last token taken, as if no
  // later one had been decided (FinishReason::kStop, unless that token ended the answer anyway).  How many tokens come
  // at a time depends on drafts; the tokens do not. A prompt that extends the previous call's sequence, prompt and
  // taken tokens, goes on from its state, with the same bits.  Memory for the whole context was set aside by open();
  // once the first token is decided, nothing is allocated but GeneratedToken::top_logprobs, which hold what was asked
  // for. Errors: kInvalidArgument for an empty prompt, a token out of the vocabulary, a prompt longer than the context
  // (both numbers named), params; kCorruptFile when the model's logits are not finite, after the tokens before that
  // position have been delivered; kResourceExhausted.  The next call is as good as if this one had never been.
  Result<GenerationResult> generate(std::span<const int32_t> prompt, const GenerationParams& params,
                                    FunctionRef<Taken(std::span<const GeneratedToken>)> on_tokens) {
    return generate(prompt, params, nullptr, on_tokens);
  }
  // The same for an answer that the grammar derives; null: any answer.  It is compiled first, which may allocate, as
  // may its masks.  Errors besides: those of the compilation (grammar/grammar_compiler.h) and of masks.
  virtual Result<GenerationResult> generate(std::span<const int32_t> prompt, const GenerationParams& params,
                                            const GrammarSpec* grammar,
                                            FunctionRef<Taken(std::span<const GeneratedToken>)> on_tokens) = 0;

  // Ends the running generate() within one step with FinishReason::kCancelled.  Safe in a signal handler.
  virtual void cancel() = 0;

  virtual int32_t vocabulary() const = 0;
  virtual int64_t max_context() const = 0;
  virtual std::string_view backend_name() const = 0;  // "cpu/avx512", ...
};

}  // namespace deepinfer
