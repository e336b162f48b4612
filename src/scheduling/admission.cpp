// Who comes in the next step of StepScheduler: waiting requests for which there is room, with the longest prefix that
// is known.
#include <algorithm>
#include <utility>

#include "scheduling/plan_blocks.h"
#include "scheduling/step_scheduler.h"

namespace deepinfer {

void StepScheduler::plan_admissions(StepPlan& plan, Flight& flight, const StepRows& rows) {
  if (waiting_.empty()) return;
  waiting_.offer(config_.most_passes, [&](Sequence& s) { return try_to_admit(s, plan, flight, rows); });
}

WaitingQueue::Answer StepScheduler::try_to_admit(Sequence& sequence, StepPlan& plan, Flight& flight,
                                                 const StepRows& rows) {
  using Answer = WaitingQueue::Answer;
  if (running_.size() >= config_.max_sequences || cache_.free_state_slots() == 0) return Answer::kNoMore;
  // While prompts whose turn comes before it take the whole step it would hold blocks for nothing, and may find a
  // longer prefix later.  But whoever would be the oldest prompt has its share of every step.
  const Sequence* oldest = running_.oldest_prefilling();
  if (oldest != nullptr && ByRank()(oldest, &sequence)) {
    int64_t rows_before_it = 0;
    for (const Sequence* other : running_.prefilling()) {
      if (ByTurn()(&sequence, other)) break;
      rows_before_it += other->known() - std::get<Prefilling>(other->state).planned;
      if (rows_before_it >= rows.prefill) return Answer::kNotYet;
    }
  }

  Waiting& waiting = std::get<Waiting>(sequence.state);
  if (waiting.tier == Waiting::Tier::kAsked) return Answer::kDoesNotFit;
  const int64_t reserve = admission_reserve();
  const int64_t room = cache_.available_blocks() - reserve;
  if (!running_.empty() && room <= waiting.tried_room && publications_ == waiting.tried_publications)
    return Answer::kDoesNotFit;
  if (ask_tier(sequence, room, rows.now)) return Answer::kDoesNotFit;
  auto admitted = cache_.admit(sequence.request.salt, sequence.tokens, sequence.known() + 1,
                               sequence.request.reused_below(sequence.logits_from()), sequence.request.reuse_prefix,
                               reserve, low_water_);
  if (!admitted) {
    waiting.tried_room = room;
    waiting.tried_publications = publications_;
    return Answer::kDoesNotFit;
  }
  admit(sequence, std::move(*admitted), plan, flight);
  return Answer::kTaken;
}

// Whether a preempted sequence, for which there is room, shall wait for what the tier below the pool has of it.
bool StepScheduler::ask_tier(Sequence& sequence, int64_t room, Time now) {
  const Request& request = sequence.request;
  Waiting& waiting = std::get<Waiting>(sequence.state);
  if (tier_ == nullptr || sequence.admissions == 0 || waiting.tier != Waiting::Tier::kNotAsked) return false;
  if (!request.reuse_prefix || cache_.blocks_for(sequence.known() + 1) > room) return false;
  const int64_t block = config_.cache.tokens_per_block;
  const int64_t logits_from = request.reused_below(sequence.logits_from());
  waiting.cached = cache_.cached_prefix(request.salt, sequence.tokens, logits_from);
  if (sequence.written_before / block <= waiting.cached / block) return false;
  const bool asked = tier_->bring_back({.request = request.id,
                                        .salt = request.salt,
                                        .tokens = sequence.tokens,
                                        .logits_from = logits_from,
                                        .cached = waiting.cached,
                                        .written = sequence.written_before,
                                        .deadline = request.deadline},
                                       now);
  waiting.tier = asked ? Waiting::Tier::kAsked : Waiting::Tier::kAnswered;
  return asked;
}

void StepScheduler::admit(Sequence& sequence, CacheCoordinator::Admitted admitted, StepPlan& plan, Flight& flight) {
  Prefilling prefilling;
  prefilling.home.blocks = std::move(admitted.blocks);
  prefilling.home.generation = cache_generation_;
  prefilling.logits_from = sequence.logits_from();
  Admission admission{.request = sequence.request.id,
                      .state_slot = prefilling.home.blocks.state_slot(),
                      .position = 0,
                      .known_tokens = sequence.known(),
                      .most_tokens = sequence.most_tokens,
                      .blocks = append(plan, prefilling.home.blocks.table()),
                      .restores = admitted.restore.has_value(),
                      .restore = {},
                      .restored = {}};
  if (admitted.restore) {
    const SnapshotInfo& info = admitted.restore->info;
    admission.position = info.position;
    admission.restore = copy_of(sequence.request.id, *admitted.restore, plan);
    admission.restored = info;
    prefilling.planned = info.position;
    prefilling.home.exact_from = info.exact_from;
    prefilling.home.draft_context_from = info.draft_context_from;
    (info.kind == SnapshotKind::kFull ? prefilling.home.full_snapshot : prefilling.home.early_snapshot) = info.position;
    restoring_blocks_ += static_cast<int64_t>(admitted.restore->blocks.size());
    flight.restores.push_back(std::move(*admitted.restore));
  }
  ++admissions_;
  if (sequence.admissions++ == 0) {
    sequence.cached_tokens = std::min(admission.position, sequence.prompt_tokens);
    prompt_tokens_ += sequence.prompt_tokens;
    cached_tokens_ += sequence.cached_tokens;
  } else {
    const Waiting& waited = std::get<Waiting>(sequence.state);
    const int64_t again = std::max<int64_t>(0, sequence.written_before - admission.position);
    const int64_t brought = std::max<int64_t>(0, std::min(admission.position, waited.brought) - waited.cached);
    sequence.recomputed_tokens += again;
    sequence.swapped_tokens += brought;
    recomputed_tokens_ += again;
    swapped_tokens_ += brought;
  }
  plan.admissions.push_back(admission);
  sequence.state = std::move(prefilling);
  running_.add(sequence);
}

}  // namespace deepinfer
