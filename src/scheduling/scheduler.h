// Scheduler: which rows run in the next step.  A pure state machine: no threads, no clock, no device; the engine calls
// it from one thread.
//
//   submit ─► waiting ─► running (prefilling ─► decoding) ─► ending ─► ended
//                 ▲            │
//                 └─ preempted ┘
//
// Rules
// - Every running sequence that decodes is in every plan.  Prefill chunks fill what the token budget and the bound on a
//   step's time leave.
// - Prompts take turns: the higher priority, then the smaller size class of what is left to compute (one step; two;
//   four; ...), then the order of submission; waiting requests are admitted in that order.  So a short prompt does not
//   wait for a long one.  Of the highest priority the oldest prompt has a quarter of the rows of every step, and is
//   admitted before others: so none starves.
// - While the oldest waiting request does not fit, `most_passes` others may be admitted, then admission waits for it.
// - Where a decoding sequence needs a block and there is none, the running sequence of the lowest priority that loses
//   the fewest tokens waits again; the oldest of the highest priority never does.  So something always progresses.
//   Where the pool is large against a snapshot this happens when the room for one is about to go, so that the
//   preempted sequence can leave one and goes on from there if memory allows.  Of what is evicted meanwhile the tier
//   below the pool may have a copy: it is asked when the sequence could be admitted again, which then waits for it.
// - What a sequence has completed is kept for others when it ends, also when it is cancelled; whole blocks only, and
//   nothing of a sequence that failed.
// - Blocks and state slots are given back when no plan in flight uses them.
// - Every accepted request ends exactly once, through take_ended().
// Costs: O(1) amortised for a token, O(log n) for an admission or an end; a plan is O(running).  Planning and answering
// take some 400 instructions for each sequence that decodes, with 64 of them as with 1,024; in time a little more with
// 1,024, which do not fit the first cache (bench/scheduler_speed).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "scheduling/cache/cache_coordinator.h"
#include "scheduling/cache/cache_tier.h"
#include "scheduling/plan.h"
#include "scheduling/request.h"
#include "scheduling/result.h"

namespace deepinfer {

struct SchedulerConfig {
  CacheGeometry cache;
  int64_t max_context = 0;  // tokens of a sequence, prompt and answer
  // Most rows of a step whose prompts want logits before their last token; at least 1.
  int64_t prompt_logit_rows = 64;
  int64_t step_rows = 512;           // token budget: most rows of a step; at least max_sequences
  int max_sequences = 16;            // running at the same time; at most cache.state_slots
  int plans_in_flight = 2;           // made and not yet answered by advance()
  Time decode_latency{250'000'000};  // bound on a step's time while something decodes
  int most_passes = 64;
  int64_t least_chunk = 16;  // rows of a prefill chunk that runs whatever the latency bound says
};

struct EndedRequest {
  RequestId id = 0;
  EndReason reason = EndReason::kStop;
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
  int64_t cached_tokens = 0;      // of the prompt, at its first admission
  int64_t recomputed_tokens = 0;  // processed again after preemptions
  int64_t swapped_tokens = 0;     // brought back from the tier after preemptions instead
  int preemptions = 0;
};

struct SchedulerStats {
  int64_t waiting = 0, running = 0, prefilling = 0, ending = 0;
  int64_t held_blocks = 0, available_blocks = 0, total_blocks = 0;
  int64_t preemptions = 0;                            // since the start, as all below
  int64_t recomputed_tokens = 0, swapped_tokens = 0;  // after preemptions (EndedRequest)
  int64_t admitted = 0, ended = 0, submitted = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
};

class Scheduler {
 public:
  // rule outlives the scheduler.
  static Result<std::unique_ptr<Scheduler>> create(const SchedulerConfig& config, const SnapshotRule& rule,
                                                   ChainHash hash = chain_hash);
  virtual ~Scheduler() = default;

  // Accepts a request or says why not: empty prompt, a prompt that with one token of the answer is more than
  // max_context or than the pool can ever hold (both numbers named), a field out of its range.  An answer that would be
  // longer than fits ends with EndReason::kLength there (Admission::most_tokens); nothing is reserved for max_tokens.
  // Where memory for it is not to be had (std::bad_alloc) nothing has happened.  Every other call that throws leaves a
  // scheduler that may only be destroyed.
  virtual Status submit(Request request) = 0;

  // Ends a request with EndReason::kCancelled unless it has ended.  Tokens of plans in flight are dropped.
  virtual void cancel(RequestId id) = 0;

  // Fills `plan`; false when there is nothing to do before the next submit, cancel, advance, tier_answered or deadline,
  // or when plans_in_flight plans are out.
  virtual bool next_plan(Time now, StepPlan& plan) = 0;

  // The outcome of a plan, in the order of the plans.
  virtual void advance(const StepResult& result) = 0;

  // Requests that have ended since the last call, in order.  The tokens went through StepResult: of a request's tokens
  // those count that were reported before its end.
  virtual void take_ended(std::vector<EndedRequest>& out) = 0;

  // When next_plan() or end_overdue() has to be called although nothing happened: the nearest deadline, or kNever.
  virtual Time next_deadline() const = 0;
  // Ends what is overdue, as next_plan() does.
  virtual void end_overdue(Time now) = 0;

  // While no plan is in flight: fills a plan after which no sequence holds a block or a state slot and nothing is
  // cached. What runs waits again, as after a preemption, and leaves no snapshot.  False: nothing runs, there is no
  // plan.
  virtual bool vacate(StepPlan& plan) = 0;

  // Tiers below the block pool (docs/kv-tiers.md).
  // Null: there is none.  It outlives the scheduler, or is taken back before it goes.
  virtual void set_tier(CacheTier* tier) = 0;
  // The wait of a request for CacheTier::bring_back() is over; its tokens below `brought` are known again
  // (adopt_prefix), 0: nothing was.  No effect for a request that has ended.
  virtual void tier_answered(RequestId request, int64_t brought) = 0;
  // Tokens of the prompt that the request would start from if it were admitted now.
  virtual int64_t cached_prefix(const Request& request) const = 0;
  // Makes a prefix known that was published before, perhaps by another process: takes blocks for info.position tokens
  // and the snapshot, has `fill` write them, and publishes them.  False, and nothing changed, when there is no room
  // beside a block for each running sequence or no snapshots of the kind are kept.
  using FillBlocks = FunctionRef<void(std::span<const BlockId> blocks, std::span<const BlockId> snapshot_blocks)>;
  virtual bool adopt_prefix(uint64_t salt, std::span<const int32_t> tokens, const SnapshotInfo& info,
                            FillBlocks fill) = 0;

  virtual SchedulerStats stats() const = 0;
  virtual bool idle() const = 0;  // nothing waiting, running or in flight
  // Forgets all prefixes.  What runs keeps its blocks and publishes nothing.
  virtual void clear_cache() = 0;
  // Aborts unless all invariants of the cache and the request states hold.
  virtual void check_integrity() const = 0;
  // The same a part at a time, whatever happens between two parts: all of the requests, and `blocks` more of the cache
  // (PrefixIndex::check_part).  True when it ends a pass through the cache.
  virtual bool check_part(int64_t blocks) = 0;
};

}  // namespace deepinfer
