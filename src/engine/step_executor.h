// StepExecutor: runs the plans of the scheduler on one device.  It knows every token as soon as it is decided, so a
// plan made before the last step ended is cut down here to what is really there: rows of ended sequences are dropped,
// drafts never reach past max_tokens.  One thread; owned by the engine.
//
// An exception while a step runs (memory, above all) ends the sequences whose rows it ran with EndReason::kError; one
// while a sequence is admitted, grows or leaves, that sequence.  Others go on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/cache_memory.h"
#include "engine/running_sequence.h"
#include "engine/side_threads.h"
#include "engine/speculation/draft_planner.h"
#include "models/model.h"
#include "scheduling/plan.h"
#include "scheduling/result.h"

namespace deepinfer {

// How large a step was.  Keys of a sequence: positions up to its last row.
struct StepShape {
  int64_t rows = 0;
  int64_t rows_times_keys = 0;  // summed over the sequences
  int64_t most_keys = 0, fewest_keys = 0;
  StepWork work;
};

// What a step decided, beside the numbers for the scheduler.
struct StepOutcome {
  StepResult result;
  std::vector<GeneratedToken> tokens;  // parallel to result.tokens
  // Parallel to result.sequences.
  struct Detail {
    bool decoded = false;                         // its rows were run
    int64_t drafted = 0;                          // draft tokens verified
    int64_t accepted = 0;                         // of them
    Status failure;                               // with EndReason::kError
    std::vector<GeneratedToken> prompt_logprobs;  // with the first token, where asked for
    std::unique_ptr<TokenChoices> choices;        // with tokens, where asked for
  };
  std::vector<Detail> details;
  StepShape shape;

  // For a step of so many sequences: then the outcome of one that failed needs no memory.
  void reserve(int64_t sequences);
  void clear();
};

class StepExecutor {
 public:
  // Model, ops and memory outlive the executor.  step_sequences: most sequences of a step.
  StepExecutor(Model& model, Ops& ops, CacheMemory& memory, DraftPlanner planner, int64_t step_sequences);

  // A request's tokens and sampling, before the first plan that names it.
  void add(std::unique_ptr<RunningSequence> sequence);
  // The request is over and in no plan any more.
  void remove(RequestId id);
  int64_t sequences() const { return static_cast<int64_t>(sequences_.size()); }

  // Does not throw where the outcome has room for the plan's sequences.
  void run(const StepPlan& plan, StepOutcome& outcome);

 private:
  RunningSequence& sequence(RequestId id);
  // Draws drafts, runs the rows and makes choices.
  void run_rows(const StepPlan& plan, StepOutcome& outcome);
  // In place of that: all its sequences have failed.
  void fail_rows(const StepPlan& plan, const Status& why, StepOutcome& outcome);
  void save(const StepPlan& plan, const std::vector<SnapshotCopy>& copies);
  void admit(const StepPlan& plan);
  void draft(const StepPlan& plan);
  // Asks the planner about the sequences of draft_requests_, and forgets them where it does not pay.
  void keep_paying_drafts(int64_t other_rows);
  // Draws the drafts of draft_requests_ and then of proposing_.
  DraftResult draw_drafts();
  void retire(const StepPlan& plan);
  void build(const StepPlan& plan, StepOutcome& outcome);
  // Runs the forward pass; masks are made beside it.
  MatrixView<float> forward();
  void choose(StepOutcome& outcome);
  // The choices for one of step_, whose logits rows begin at `row`.
  void take(size_t member, int64_t row, MatrixView<const float> logits, StepOutcome& outcome);
  StepShape shape() const;

  Model& model_;
  Ops& ops_;
  CacheMemory& memory_;
  DraftPlanner planner_;
  SideThreads mask_threads_;
  std::unordered_map<RequestId, std::unique_ptr<RunningSequence>> sequences_;

  // Of the step under way.
  struct Proposal {
    int64_t first = 0, count = 0;  // of proposed_
  };
  std::vector<DraftSequence> draft_requests_;
  std::vector<RunningSequence*> proposing_;  // want a proposal
  std::vector<RequestId> drafting_;          // request of each
  std::vector<int> draft_limits_, drawn_, draft_lengths_;
  std::vector<size_t> draft_decodes_;  // plan.decodes index of each
  std::vector<Proposal> proposals_;    // of each of plan.decodes
  std::vector<int32_t> proposed_;
  std::vector<StepSequence> step_;
  std::vector<RunningSequence*> members_;  // of step_
  std::vector<RunningSequence*> masked_;   // of members_
  std::vector<size_t> reported_;           // place of each of step_ in the outcome
  std::vector<SamplingRow> rows_;
  std::vector<int64_t> row_counts_;  // of each of step_
  std::vector<SampledRow> choices_;
  std::vector<TokenLogprob> top_;
};

}  // namespace deepinfer
