// The outcome of a step of StepScheduler: tokens, ends, publications, and what nothing uses any more goes back.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduling/step_scheduler.h"

namespace deepinfer {

void Flight::clear() {
  number = 0;
  prefill_rows = decode_rows = 0;
  rows.clear();
  saves.clear();
  restores.clear();
  retirements.clear();
}

void StepScheduler::advance(const StepResult& result) {
  DI_CHECK(!flights_.empty() && flights_.oldest().number == result.plan, "results come in the order of the plans");
  Flight& flight = flights_.oldest();
  DI_CHECK(flight.rows.size() == result.sequences.size(), "a result for each chunk and each decode entry");
  budget_.observe(flight.decode_rows, flight.prefill_rows, result.duration);
  const std::span<const int32_t> tokens(result.tokens);
  for (size_t i = 0; i < flight.rows.size(); ++i) {
    const SequenceResult& of = result.sequences[i];
    apply(flight.rows[i], of, tokens.subspan(static_cast<size_t>(of.first_token), static_cast<size_t>(of.tokens)));
  }
  for (Flight::Save& save : flight.saves) publish(save);
  for (SnapshotPlace& place : flight.restores) {
    restoring_blocks_ -= static_cast<int64_t>(place.blocks.size());
    cache_.release_snapshot(std::move(place));
  }
  for (Sequence* sequence : flight.retirements) retire(*sequence);
  flight.clear();
  flights_.land();
}

void StepScheduler::apply(const Flight::Rows& rows, const SequenceResult& result, std::span<const int32_t> tokens) {
  Sequence& sequence = *rows.sequence;
  DI_CHECK(result.request == sequence.request.id, "results come in the order of the plan's rows");
  DI_CHECK(static_cast<int64_t>(tokens.size()) <= rows.assumed, "no more tokens than the rows can decide");
  Residence& home = *residence(sequence.state);
  if (auto* ending = std::get_if<Ending>(&sequence.state)) {
    // Its tokens come too late.  Its rows may not have been run; what was true of its rings remains so.
    if (result.ended == EndReason::kError) ending->reason = EndReason::kError;  // what was to be saved may be missing
    home.exact_from = std::max(home.exact_from, result.exact_from);
    home.draft_context_from = std::max(home.draft_context_from, result.draft_context_from);
    return;
  }
  home.exact_from = result.exact_from;
  home.draft_context_from = result.draft_context_from;
  DI_CHECK(rows.assumed == 0 || !tokens.empty() || result.ended, "rows of a sequence that goes on decide a token");
  if (auto* decoding = std::get_if<Decoding>(&sequence.state); decoding != nullptr && rows.assumed > 0) {
    decoding->plans -= 1;
    decoding->assumed -= rows.assumed;
  }

  const int64_t room = sequence.most_tokens - sequence.known();
  tokens = tokens.first(static_cast<size_t>(std::min<int64_t>(room, static_cast<int64_t>(tokens.size()))));
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  answer_tokens_ += static_cast<int64_t>(tokens.size());
  if (result.ended) {
    finish(sequence, *result.ended);
  } else if (sequence.known() == sequence.most_tokens) {
    finish(sequence, EndReason::kLength);
  }
}

void StepScheduler::publish(Flight::Save& save) {
  const Residence& home = *residence(save.sequence->state);
  const auto* ending = std::get_if<Ending>(&save.sequence->state);
  const bool failed = ending != nullptr && ending->reason == EndReason::kError;
  if (!save.published && !failed && home.generation == cache_generation_) publish_ahead(save);
  if (tier_ != nullptr && save.published && !failed && home.generation == cache_generation_) {
    const int64_t position = save.place.info.position;
    tier_->published(save.sequence->request.salt,
                     std::span<const int32_t>(save.sequence->tokens).first(static_cast<size_t>(position)),
                     home.blocks.table().first(static_cast<size_t>(position / config_.cache.tokens_per_block)),
                     save.place.info, save.place.blocks);
  }
  cache_.release_snapshot(std::move(save.place));
}

void StepScheduler::publish_ahead(Flight::Save& save) {
  const Residence& home = *residence(save.sequence->state);
  save.place.info.exact_from = home.exact_from;
  save.place.info.draft_context_from = home.draft_context_from;
  const std::span<const int32_t> tokens(save.sequence->tokens);
  cache_.publish_ahead(save.sequence->request.salt, tokens.first(static_cast<size_t>(save.place.info.position)),
                       home.blocks, save.place);
  save.published = true;
  ++publications_;
}

void StepScheduler::retire(Sequence& sequence) {
  Residence& home = *residence(sequence.state);
  leaving_blocks_ -= static_cast<int64_t>(home.blocks.table().size());
  cache_.release(std::move(home.blocks));
  if (const auto* yielding = std::get_if<Yielding>(&sequence.state)) {
    sequence.written_before = yielding->prefill_logits_from ? yielding->written : sequence.known() - 1;
    --yielding_;
    sequence.state = Waiting{};
    queue(sequence);
  } else {
    --ending_;
    forget(sequence);
  }
}

}  // namespace deepinfer
