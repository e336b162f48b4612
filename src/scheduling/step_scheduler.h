// StepScheduler: the Scheduler of this library.  Sources: requests and their ends (scheduler.cpp), the next step
// (planning.cpp) and who comes with it (admission.cpp), the outcome of a step (outcome.cpp); what must always hold is
// in integrity.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scheduling/flight.h"
#include "scheduling/running_set.h"
#include "scheduling/scheduler.h"
#include "scheduling/sequence.h"
#include "scheduling/snapshot_choice.h"
#include "scheduling/step_budget.h"
#include "scheduling/waiting_queue.h"

namespace deepinfer {

class StepScheduler final : public Scheduler {
 public:
  // config has been checked.
  StepScheduler(const SchedulerConfig& config, const SnapshotRule& rule, ChainHash hash);
  ~StepScheduler() override;

  Status submit(Request request) override;
  void cancel(RequestId id) override;
  bool next_plan(Time now, StepPlan& plan) override;
  void advance(const StepResult& result) override;
  void take_ended(std::vector<EndedRequest>& out) override;
  Time next_deadline() const override;
  void end_overdue(Time now) override;
  bool vacate(StepPlan& plan) override;
  void set_tier(CacheTier* tier) override;
  void tier_answered(RequestId request, int64_t brought) override;
  int64_t cached_prefix(const Request& request) const override;
  bool adopt_prefix(uint64_t salt, std::span<const int32_t> tokens, const SnapshotInfo& info, FillBlocks fill) override;
  SchedulerStats stats() const override;
  bool idle() const override;
  void clear_cache() override;
  void check_integrity() const override;
  bool check_part(int64_t blocks) override;

 private:
  friend struct CacheFaults;    // of tests
  void check_requests() const;  // integrity.cpp

  // Of the step that is being planned.
  struct StepRows {
    Time now{0};
    int64_t prefill = 0;        // rows left for chunks
    bool memory_short = false;  // a decoding sequence had to wait, or another to go for it
    int64_t owed_blocks = 0;    // that waiting decoding sequences need
  };

  // Ends (scheduler.cpp).
  void queue(Sequence& sequence);
  void finish(Sequence& sequence, EndReason reason);
  void forget(Sequence& sequence);

  // Planning (planning.cpp).
  void plan_decodes(StepPlan& plan, Flight& flight, StepRows& rows);
  void plan_decode(Sequence& sequence, int64_t most_drafts, StepPlan& plan, Flight& flight, StepRows& rows);
  bool reserve(Sequence& sequence, int64_t tokens, StepPlan& plan, Flight& flight, StepRows& rows);
  void preempt(Sequence& sequence);
  void plan_departures(StepPlan& plan, Flight& flight);
  void plan_departure(Sequence& sequence, StepPlan& plan, Flight& flight);
  void plan_prefills(StepPlan& plan, Flight& flight, StepRows& rows);
  int64_t plan_chunk(Sequence& sequence, int64_t most, int64_t& logit_rows, StepPlan& plan, Flight& flight);
  // Gives a plan that does something its number and sends it off; false for one that does nothing.
  bool launch(StepPlan& plan, Flight& flight);
  // Adds the copy to `copies` and to the flight if the sequence publishes and there is room.
  bool plan_save(Sequence& sequence, const SnapshotChoice& choice, StepPlan& plan, std::vector<SnapshotCopy>& copies,
                 Flight& flight);

  // Admission (admission.cpp).
  void plan_admissions(StepPlan& plan, Flight& flight, const StepRows& rows);
  WaitingQueue::Answer try_to_admit(Sequence& sequence, StepPlan& plan, Flight& flight, const StepRows& rows);
  bool ask_tier(Sequence& sequence, int64_t room, Time now);
  void admit(Sequence& sequence, CacheCoordinator::Admitted admitted, StepPlan& plan, Flight& flight);
  // Blocks that an admission leaves free or idle: one for each running sequence to grow into; alone it may have all.
  int64_t admission_reserve() const { return running_.empty() ? 0 : running_.size() + low_water_; }

  // Outcome (outcome.cpp).
  void apply(const Flight::Rows& rows, const SequenceResult& result, std::span<const int32_t> tokens);
  void publish(Flight::Save& save);
  void publish_ahead(Flight::Save& save);
  void retire(Sequence& sequence);

  SchedulerConfig config_;
  const SnapshotRule& rule_;
  CacheCoordinator cache_;
  int64_t most_sequence_tokens_;  // of one sequence: max_context, or what the pool holds
  // When growing sequences would leave fewer blocks than this one has to go: enough for its snapshot and a block, so
  // that it loses little and nobody waits.  0 in a pool too small for that.
  int64_t low_water_;

  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;  // not ended, or holding blocks
  WaitingQueue waiting_;
  RunningSet running_;
  std::set<std::pair<Time, RequestId>> deadlines_;  // of requests that have one and have not ended
  std::vector<Sequence*> departing_;                // Ending, not yet in a plan's retirements
  int64_t leaving_blocks_ = 0;                      // in the tables of all Yielding and Ending sequences
  int64_t restoring_blocks_ = 0;                    // of the snapshots that plans in flight read
  int64_t yielding_ = 0, ending_ = 0;
  Flights flights_;
  StepBudget budget_;
  std::vector<EndedRequest> ended_;

  uint64_t submissions_ = 0, admissions_ = 0, plans_ = 0, publications_ = 0, cache_generation_ = 0;
  int64_t preemptions_ = 0, recomputed_tokens_ = 0, swapped_tokens_ = 0, ended_count_ = 0;
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, answer_tokens_ = 0;
  std::vector<Sequence*> order_;  // scratch of a plan
  CacheTier* tier_ = nullptr;
};

// The message of the first rule that a configuration breaks.
Status check(const SchedulerConfig& config);

}  // namespace deepinfer
