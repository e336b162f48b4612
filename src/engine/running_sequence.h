// RunningSequence: one request on the executor's side, from its first admission to its end.  It owns the tokens, the
// sampling state and the view of the cached records that the scheduler has given it; it decides tokens, never memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache_memory.h"
#include "engine/generator.h"
#include "engine/request_sampling.h"
#include "engine/sequence_progress.h"
#include "models/model.h"
#include "scheduling/plan.h"

namespace deepinfer {

class RunningSequence {
 public:
  // params.max_tokens is resolved: at least 1.
  RunningSequence(RequestId id, std::vector<int32_t> prompt, GenerationParams params, int drafts);
  RunningSequence(const RunningSequence&) = delete;  // its sampling refers to its parameters
  RunningSequence& operator=(const RunningSequence&) = delete;

  RequestId id() const { return id_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  const SequenceProgress& progress() const { return progress_; }
  int state_slot() const { return state_slot_; }
  bool ended() const { return ended_; }
  // Drafts that may still be wanted: a round decides one token more than it has drafts.
  int most_drafts() const;

  // The scheduler has given it blocks and a state slot; `written` is what the slot's rings hold.
  void admit(const Admission& admission, std::span<const BlockId> table, const WrittenRows& written,
             const RowRule& rule, const Model& model, CacheMemory& memory);
  void grow(std::span<const BlockId> blocks, CacheMemory& memory);
  void retire();

  // The rows of a step: known tokens, or the last one and drafts behind it.  Valid until the next call.
  StepSequence prefill(const PrefillChunk& chunk);
  StepSequence decode(std::span<const int32_t> drafts);
  DraftSequence draft_request(int drafts) const;

  // Appends the sampling of the step's logits rows, first to last; valid until take().
  void add_sampling(std::vector<SamplingRow>& rows);
  // Takes the choices for the step's rows as far as they are right, commits the step and appends the decided tokens.
  // A row without a choice ends the sequence with a failure.  All three have the step's logits rows.
  struct Decided {
    int64_t tokens = 0;
    bool ended = false;
    FinishReason finish = FinishReason::kStop;
    Status failure;
  };
  Decided take(std::span<const SampledRow> choices, MatrixView<const float> logits, MatrixView<const TokenLogprob> top,
               std::vector<GeneratedToken>& out);

 private:
  CacheView view() const { return {histories_, rings_}; }

  RequestId id_;
  GenerationParams params_;
  int drafts_;
  RequestSampling sampling_;
  std::vector<int32_t> tokens_;  // prompt and decided tokens, and the drafts of the step under way
  int64_t prompt_tokens_;
  int64_t known_;  // without drafts
  bool ended_ = false;

  int state_slot_ = -1;
  std::vector<std::vector<std::byte*>> parts_;  // of each history: the blocks' parts
  std::vector<BlockList> histories_;
  std::span<const Ring> rings_;
  SequenceProgress progress_;

  StepSequence step_;  // under way
  int64_t logit_rows_ = 0;
};

}  // namespace deepinfer
