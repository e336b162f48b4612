// Model: all that the engine knows of a model.  A step carries rows of one or more sequences through the network; what
// a sequence keeps between steps lies in memory that the engine owns and the model describes (cache_layout.h).
//
// Bits: the records and logits of a position depend on the tokens up to it, the backend and nothing else: not on how
// positions are cut into steps, on other sequences of a step, or on rows that were rolled back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/cache_layout.h"
#include "models/choice_sink.h"
#include "ops/ops.h"
#include "ops/sample.h"
#include "tensor/matrix.h"

namespace deepinfer {

struct ModelInfo {
  std::string type;  // model_type of config.json
  int32_t vocabulary = 0;
  int64_t max_context = 0;  // tokens, as the checkpoint says
  int32_t bos_token = 0;
  int32_t eos_token = 0;
  int draft_tokens = 0;  // of a draft block; 0: the model has no draft
  ChoiceCounts choices;
  int64_t min_replay_tokens = 0;  // least number of last prompt tokens for kBoundedReplay; 0: not offered by this model
};

// The largest step that will be run.  All scratch memory is planned from it.
struct StepLimits {
  int64_t rows = 512;  // of all sequences together
  int64_t sequences = 1;
  int64_t logit_rows = 0;         // rows of a step that give logits; 0: those of a verify step of all sequences and
  int64_t prompt_logit_rows = 0;  // so many more
  int64_t max_context = 0;        // tokens; 0: the model's own
  // Positions that rings keep beyond what the newest rows and a verify step need, so that the windows at an earlier
  // boundary can still be copied out.
  int64_t ring_slack = 0;
};

// Which rows of a sequence run through which layers.  One rule holds for all steps of a sequence up to its next prompt.
struct RowRule {
  enum class Kind : uint8_t {
    kEveryRow,       // every row through every layer
    kExact,          // rows that cannot reach a logit at or after `from` leave early; all bits as with kEveryRow
    kBoundedReplay,  // later layers see the rows at or after `from` only: an approximation
  };
  Kind kind = Kind::kEveryRow;
  int64_t from = 0;
};

struct StepSequence {
  CacheView cache;                  // has room for position + rows tokens
  std::span<const int32_t> tokens;  // its last `rows` entries are the rows; before them at least
                                    // min(position, lookback_tokens) earlier tokens of the sequence
  int64_t rows = 0;                 // >= 1
  int64_t position = 0;             // of the first row = tokens processed before the step
  RowRule rule;
  int64_t logits_from = 0;        // rows at positions >= this give logits; position + rows: none
  bool draft_context = false;     // keep what draft() needs of these rows
  ChoiceSink* choices = nullptr;  // hears of the choices of rows in the layers that they reach; null: nobody does
};

// What draft() needs of a sequence.
struct DraftSequence {
  CacheView cache;
  int32_t token = 0;         // sampled, not yet processed
  int64_t position = 0;      // of token = tokens processed so far
  int64_t context_from = 0;  // draft context exists for positions [context_from, position)
  int drafts = 0;            // wanted, <= ModelInfo::draft_tokens
  SamplingRow sampling;      // of the request; position is set per draft
};

struct DraftResult {
  // [sequences, draft_tokens]: the token proposed for position + 1 + i; -1 from the first that could not be drawn on
  // and past `drafts`.  Confidence logits alike; sigmoid gives the chance that it is accepted if all before it are.
  MatrixView<const int32_t> tokens;
  MatrixView<const float> confidence;
  // [sequences * draft_tokens, vocabulary]: what the drafts were drawn from, after bias and penalties.
  MatrixView<const float> logits;
};

// What earlier steps have left in a sequence's rings.
struct WrittenRows {
  int64_t end = 0;         // one more than the highest position ever written
  int64_t processed = 0;   // tokens that count: rows at or after it were rolled back
  int64_t exact_from = 0;  // largest `from` of the kExact rules used
};

// Weights that a model can go over to; afterwards those that it had before.
class PreparedWeights {
 public:
  virtual ~PreparedWeights() = default;
};

enum class WeightPlace : uint8_t {
  kMemory,  // copied into the backend's memory
  kHost,    // read into memory of the host that operations reach
  kMapped,  // read where the file is mapped
};
struct PlacedWeights {
  std::string_view kind;  // "weights", "experts", "Engram tables"
  WeightPlace place = WeightPlace::kMemory;
  uint64_t bytes = 0;
};
inline constexpr std::string_view kExpertWeights = "experts";

// Floating-point operations of a step, a multiply-add counted as two.
struct StepWork {
  double attention = 0;  // attention and the choice of rows for it
  double total = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  virtual const CacheLayout& cache_layout() const = 0;

  // Runs the rows of a step and stores their records.  Returns the logits of the wanted rows, [rows, vocabulary], in
  // the order of sequences and positions; the caller may change them; valid until the next call.
  virtual MatrixView<float> forward(std::span<const StepSequence> step) = 0;

  // Proposes tokens.  Writes nothing into the caches.  Valid until the next call.
  virtual DraftResult draft(std::span<const DraftSequence> sequences) = 0;

  // Whether a sequence may go on from `position` (<= written.processed) under `rule` with the bits of a fresh start.
  virtual bool resumable(const WrittenRows& written, int64_t position, const RowRule& rule) const = 0;

  // Opens the weights of another folder.  Its configuration and the names, dtypes and shapes of all its tensors must be
  // those of the loaded ones; the error names the first that differs.  Called on any thread, also while steps run.
  virtual Result<std::unique_ptr<PreparedWeights>> prepare_weights(const std::filesystem::path& folder) const = 0;
  // Exchanges the model's weights for prepared ones of the same model.  No step runs meanwhile; cached records stay as
  // the weights before made them.
  virtual void exchange_weights(PreparedWeights& weights) = 0;

  // All weights, by kind.
  virtual std::vector<PlacedWeights> placed_weights() const { return {}; }

  // Arithmetic of forward(step).
  virtual StepWork work(std::span<const StepSequence> step) const = 0;

  // First position whose draft context steps under `rule` keep.
  virtual int64_t draft_context_start(const RowRule& rule) const = 0;
};

}  // namespace deepinfer
