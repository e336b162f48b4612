// Sequence: a request on its way, its tokens so far, and the state it is in.  Owned by the scheduler; the queues hold
// pointers.
//
// A state is a type that has what the state needs and nothing else.  Who holds blocks has a Residence; it moves from
// state to state and can be neither lost nor held twice.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "scheduling/cache/cache_coordinator.h"
#include "scheduling/plan.h"
#include "scheduling/request.h"

namespace deepinfer {

// What a sequence holds on the device, and what is known of it there.
struct Residence {
  SequenceBlocks blocks;
  uint64_t generation = 0;  // of the cache, at admission: records from before a flush are not published after it
  // The highest boundaries that have a snapshot of the kind already: the hit's, or one saved since.
  int64_t full_snapshot = 0;
  int64_t early_snapshot = 0;
  // Of the last result.
  int64_t exact_from = 0;
  int64_t draft_context_from = 0;
};

// For an admission: new, or preempted and with nothing left on the device.
struct Waiting {
  int passes = 0;  // others that were admitted while it was the first by rank and did not fit
  // The last attempt: blocks beyond the reserve, and publications so far.  It is repeated when either has grown.
  int64_t tried_room = -1;
  uint64_t tried_publications = 0;
  // Of a preempted one: what the tier below the pool says of the records that it lost.
  enum class Tier : uint8_t { kNotAsked, kAsked, kAnswered } tier = Tier::kNotAsked;
  int64_t cached = 0;   // tokens in the pool when it was asked
  int64_t brought = 0;  // tokens in the pool because of its answer
};

// Plans made so far compute the known tokens below `planned`.
struct Prefilling {
  Residence home;
  int64_t planned = 0;
  int64_t logits_from = 0;
};

// All tokens known at admission are planned.  `plans` plans in flight decide at least one token each, `assumed` at
// most.
struct Decoding {
  Residence home;
  int64_t plans = 0;
  int64_t assumed = 0;
};

// Preempted: waits again when the plan that retires it is answered.  Plans in flight may still add tokens, or end it.
struct Yielding {
  Residence home;
  int64_t written = 0;                         // tokens whose records are there when the plans made so far are done
  std::optional<int64_t> prefill_logits_from;  // of a prefill that was not finished
};

// Ended for its owner; blocks and state slot go back when the plan that retires it is answered.
struct Ending {
  Residence home;
  int64_t written = 0;
  std::optional<int64_t> prefill_logits_from;
  EndReason reason = EndReason::kStop;  // kError also if rows in flight failed afterwards: nothing is published
};

using SequenceState = std::variant<Waiting, Prefilling, Decoding, Yielding, Ending>;

struct Sequence {
  Request request;              // its prompt has moved into tokens
  uint64_t order = 0;           // of submission
  std::vector<int32_t> tokens;  // prompt, and the answer as far as it has been reported
  int64_t prompt_tokens = 0;
  int64_t most_tokens = 0;     // prompt and answer
  int64_t cached_tokens = 0;   // at the first admission
  int64_t written_before = 0;  // tokens whose records a preemption gave up
  int64_t recomputed_tokens = 0;
  int64_t swapped_tokens = 0;
  int admissions = 0;
  int preemptions = 0;
  int size_class = 0;  // of the rows of its prefill to come, when it was queued or had its last chunk
  SequenceState state = Waiting{};

  int64_t known() const { return static_cast<int64_t>(tokens.size()); }
  int64_t answer_tokens() const { return known() - prompt_tokens; }
  // First position whose logits are wanted of an admission now: prompt logits until the first token came.
  int64_t logits_from() const;
  // Tokens whose records are there when the plans made so far are done, as far as known.  0 unless running.
  int64_t written() const;
};

// Who goes first: the higher priority, then the earlier submission.
struct ByRank {
  bool operator()(const Sequence* a, const Sequence* b) const {
    if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
    return a->order < b->order;
  }
};

// Prompts are served by size, roughly: class 0 are those that one step can take, each class beyond reaches twice as
// far. rows: to be computed, at least one.
int size_class(int64_t rows, int64_t step_rows);

// Whose turn it is: the higher priority, then the smaller class, then the earlier submission.
struct ByTurn {
  bool operator()(const Sequence* a, const Sequence* b) const {
    if (a->request.priority == b->request.priority && a->size_class != b->size_class)
      return a->size_class < b->size_class;
    return ByRank()(a, b);
  }
};

// Blocks and so on of a state that has them, else null.
Residence* residence(SequenceState& state);
const Residence* residence(const SequenceState& state);

// Transitions.  Each consumes the state that it starts from.
Decoding last_chunk_planned(Prefilling&& from);
Yielding preempted(const Sequence& sequence, Prefilling&& from);
Yielding preempted(const Sequence& sequence, Decoding&& from);
Ending ended(const Sequence& sequence, Prefilling&& from, EndReason reason);
Ending ended(const Sequence& sequence, Decoding&& from, EndReason reason);
Ending ended(const Sequence& sequence, Yielding&& from, EndReason reason);

}  // namespace deepinfer
