// RunningSequence: one request on the executor's side, from its first admission to its end.  It owns the tokens, the
// sampling state and the view of the cached records that the scheduler has given it; it decides tokens, never memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/cache_memory.h"
#include "engine/choice_record.h"
#include "engine/generator.h"
#include "engine/request_sampling.h"
#include "engine/sequence_progress.h"
#include "models/model.h"
#include "scheduling/plan.h"

namespace deepinfer {

// First position of the prompt that the later layers of a request with bounded prefix_replay see.
inline int64_t replay_from(const EngineRequest& request) {
  return std::max<int64_t>(0, std::ssize(request.prompt) - request.replay_tokens);
}

class RunningSequence {
 public:
  // request.params is resolved: max_tokens at least 1, draft_tokens at least 0.  grammar: of request.grammar.
  RunningSequence(RequestId id, EngineRequest request, const ModelInfo& model, std::optional<GrammarMatcher> grammar);
  RunningSequence(const RunningSequence&) = delete;  // its sampling refers to its request
  RunningSequence& operator=(const RunningSequence&) = delete;

  RequestId id() const { return id_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  const SequenceProgress& progress() const { return progress_; }
  int state_slot() const { return state_slot_; }
  bool ended() const { return ended_; }
  // Something broke that it cannot go on without: it has ended, which the next outcome with its rows tells.
  void fail(Status why) noexcept {
    ended_ = true;
    failure_ = std::move(why);
  }
  bool failed() const { return !failure_.ok(); }
  const Status& failure() const { return failure_; }
  // Drafts that may still be wanted: a round decides one token more than it has drafts.
  int most_drafts() const;

  // The scheduler has given it blocks and a state slot; `written` is what the slot's rings hold.
  void admit(const Admission& admission, std::span<const BlockId> table, const WrittenRows& written, const Model& model,
             CacheMemory& memory);
  void grow(std::span<const BlockId> blocks, CacheMemory& memory);
  void retire();

  // The rows of a step: known tokens, or the last one and drafts behind it.  Valid until the next call.
  StepSequence prefill(const PrefillChunk& chunk);
  StepSequence decode(std::span<const int32_t> drafts);
  DraftSequence draft_request(int drafts) const;

  // Rejection sampling: drafts come from a proposal that outlives steps, rows and preemption (draft_proposal.h).
  bool tests_drafts() const { return sampling_.tests_drafts(); }
  // Whether its next choice needs a new proposal, of draft_request(proposal_drafts()).
  bool wants_proposal() const {
    return tests_drafts() && !ended_ && !sampling_.proposal().open() && known_ > prompt_tokens_ &&
           progress_.processed() == known_ - 1;
  }
  int proposal_drafts() const { return request_.params.draft_tokens; }
  void propose(std::span<const int32_t> drafts, MatrixView<const float> logits, Memory& memory) {
    sampling_.propose(drafts, logits, memory);
  }
  std::span<const int32_t> proposed() const { return sampling_.proposal().drafts(); }

  // Whether the step's rows need masks: fill_masks() then, before add_sampling(), beside the forward pass or not.
  bool masked() const { return samples() && sampling_.masked(); }
  void fill_masks() noexcept;  // what goes wrong is the sequence's failure in take()
  // Appends the sampling of the step's logits rows, first to last; valid until take().
  void add_sampling(std::vector<SamplingRow>& rows);
  // Takes the choices for the step's rows as far as they are right, commits the step and appends the decided tokens.
  // A row without a choice ends the sequence with a failure.  The first three have the step's logits rows; the logits
  // lie in `memory`.
  struct Decided {
    int64_t tokens = 0;
    int64_t judged = 0, right = 0;  // drafts that came true or did not, and those that did
    std::optional<EndReason> ended;
    Status failure;  // with EndReason::kError
  };
  Decided take(std::span<const SampledRow> choices, MatrixView<const float> logits, MatrixView<const TokenLogprob> top,
               Memory& memory, std::vector<GeneratedToken>& out);
  // Of the prompt's tokens 1, 2, ...: once, when the prompt has been processed.
  std::vector<GeneratedToken> take_prompt_logprobs() { return std::move(prompt_logprobs_); }
  // Of the tokens processed since the last call, after take(); null unless asked for.
  std::unique_ptr<TokenChoices> take_choices();

 private:
  // The first position whose row has to run through all layers.
  int64_t complete_from() const;
  // Gives the step's rows the record of their choices.
  void record_choices();
  CacheView view() const { return {histories_, rings_}; }
  // Of an admission now.  A bounded prefix begins where it began at first, so that preemption changes nothing.
  RowRule row_rule() const;
  bool wants_prompt_logprobs() const { return request_.prompt_logprobs >= 0 && known_ == prompt_tokens_; }
  // Whether the step's last logits row, or rows, choose tokens.
  bool samples() const { return logit_rows_ > prompt_rows_; }
  GeneratedToken reported(const SampledRow& choice, MatrixView<const TokenLogprob> top, int64_t row, int64_t position,
                          int32_t logprobs) const;
  // Takes one choice; what it decides.
  void decide(const SampledRow& choice, GeneratedToken token, Decided& decided, std::vector<GeneratedToken>& out);

  RequestId id_;
  EngineRequest request_;  // without its prompt
  RequestSampling sampling_;
  int64_t replay_from_;          // 0: the whole prompt is seen
  std::vector<int32_t> tokens_;  // prompt and decided tokens, and the drafts of the step under way
  int64_t prompt_tokens_;
  int64_t known_;        // without drafts
  int64_t most_tokens_;  // prompt and answer
  bool ended_ = false;
  Status failure_;  // of fail()
  std::vector<GeneratedToken> prompt_logprobs_;
  std::optional<ChoiceRecord> choices_;  // where asked for

  int state_slot_ = -1;
  std::vector<std::vector<std::byte*>> parts_;  // of each history: the blocks' parts
  std::vector<BlockList> histories_;
  std::span<const Ring> rings_;
  SequenceProgress progress_;

  StepSequence step_;  // under way
  int64_t logit_rows_ = 0;
  int64_t prompt_rows_ = 0;  // of them, those that report on prompt tokens
  Status mask_failure_;
};

}  // namespace deepinfer
