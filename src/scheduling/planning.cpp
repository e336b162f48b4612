// The next step of StepScheduler: decode rows first, then who leaves, then who comes (admission.cpp), then prompt
// chunks.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduling/plan_blocks.h"
#include "scheduling/preemption.h"
#include "scheduling/step_scheduler.h"

namespace deepinfer {
namespace {

// Of a step's prefill rows one in so many is for the oldest prompt.
constexpr int64_t kOldestShare = 4;

}  // namespace

bool StepScheduler::next_plan(Time now, StepPlan& plan) {
  end_overdue(now);
  plan.clear();
  if (flights_.full()) return false;
  Flight& flight = flights_.next();
  StepRows rows;
  rows.now = now;
  plan_decodes(plan, flight, rows);
  plan_departures(plan, flight);
  rows.prefill = std::min(config_.step_rows - plan.decode_rows, budget_.prefill_rows(plan.decode_rows));
  if (!rows.memory_short) plan_admissions(plan, flight, rows);
  plan_prefills(plan, flight, rows);
  // Results come for the chunks first: bring the rows into that order.
  std::rotate(flight.rows.begin(), flight.rows.begin() + static_cast<std::ptrdiff_t>(plan.decodes.size()),
              flight.rows.end());
  return launch(plan, flight);
}

bool StepScheduler::launch(StepPlan& plan, Flight& flight) {
  if (plan.empty()) return false;
  plan.number = flight.number = ++plans_;
  flight.prefill_rows = plan.prefill_rows;
  flight.decode_rows = plan.decode_rows;
  flights_.launch();
  return true;
}

bool StepScheduler::vacate(StepPlan& plan) {
  DI_CHECK(flights_.empty(), "no plan is in flight");
  clear_cache();
  plan.clear();
  Flight& flight = flights_.next();
  plan_departures(plan, flight);  // of what has ended
  order_.assign(running_.prefilling().begin(), running_.prefilling().end());
  order_.insert(order_.end(), running_.decoding().begin(), running_.decoding().end());
  for (Sequence* sequence : order_) {
    preempt(*sequence);
    plan_departure(*sequence, plan, flight);
  }
  return launch(plan, flight);
}

void StepScheduler::plan_decodes(StepPlan& plan, Flight& flight, StepRows& rows) {
  order_.assign(running_.decoding().begin(), running_.decoding().end());
  int64_t sequences = static_cast<int64_t>(order_.size());
  // Rows beyond one each are for drafts, in equal parts; but a prompt that is there or waits gets its least chunk.
  int64_t draft_rows = config_.step_rows - sequences;
  if (!running_.prefilling().empty() || !waiting_.empty()) draft_rows -= std::min(draft_rows, config_.least_chunk);
  for (Sequence* sequence : order_) {
    const int64_t before = plan.decode_rows;
    plan_decode(*sequence, draft_rows / sequences, plan, flight, rows);
    draft_rows -= std::max<int64_t>(0, plan.decode_rows - before - 1);
    --sequences;
  }
}

void StepScheduler::plan_decode(Sequence& sequence, int64_t most_drafts, StepPlan& plan, Flight& flight,
                                StepRows& rows) {
  auto* decoding = std::get_if<Decoding>(&sequence.state);
  if (decoding == nullptr) return;  // has just made room for one before it
  // Tokens that are left if the plans in flight decide one each.
  const int64_t left = sequence.most_tokens - sequence.known() - decoding->plans;
  if (left <= 0) return;  // ends in a plan in flight
  int64_t drafts = std::min<int64_t>({sequence.request.drafts, left - 1, most_drafts});

  // Records after this step, at most: of all tokens known or assumed but the newest, and of the drafts.
  const int64_t without_drafts = sequence.known() + decoding->assumed;
  const auto blocks_for = [&](int64_t n) {
    return cache_.blocks_for(std::min(without_drafts + n, sequence.most_tokens));
  };
  const int64_t table = static_cast<int64_t>(decoding->home.blocks.table().size());
  if (const int64_t more = blocks_for(drafts) - table;
      more > 0 && cache_.available_blocks() - rows.owed_blocks - more < low_water_)
    // No block for guesses.
    drafts = std::clamp<int64_t>(table * config_.cache.tokens_per_block - without_drafts, 0, drafts);
  if (blocks_for(drafts) > table &&
      !reserve(sequence, std::min(without_drafts + drafts, sequence.most_tokens), plan, flight, rows))
    return;

  decoding->plans += 1;
  decoding->assumed += 1 + drafts;
  plan.decodes.push_back({.request = sequence.request.id, .drafts = static_cast<int>(drafts)});
  plan.decode_rows += 1 + drafts;
  flight.rows.push_back({.sequence = &sequence, .assumed = 1 + drafts});
}

// Blocks for so many tokens.  When they run short others give theirs, which takes until their plan is answered: false
// if the sequence has to wait for that, or goes itself.
bool StepScheduler::reserve(Sequence& sequence, int64_t tokens, StepPlan& plan, Flight& flight, StepRows& rows) {
  SequenceBlocks& blocks = residence(sequence.state)->blocks;
  const size_t before = blocks.table().size();
  const int64_t more = cache_.blocks_for(tokens) - static_cast<int64_t>(before);
  while (cache_.available_blocks() + leaving_blocks_ + restoring_blocks_ - rows.owed_blocks - more < low_water_) {
    Sequence* victim = choose_victim(running_);
    if (victim == nullptr) break;
    rows.memory_short = true;
    preempt(*victim);
    plan_departure(*victim, plan, flight);  // its snapshot first: that is what the low water is for
    if (victim == &sequence) return false;
  }
  if (!cache_.extend(blocks, tokens)) {
    rows.memory_short = true;
    rows.owed_blocks += more;
    return false;
  }
  plan.growths.push_back({.request = sequence.request.id, .blocks = append(plan, blocks.table().subspan(before))});
  return true;
}

void StepScheduler::preempt(Sequence& sequence) {
  running_.remove(sequence);
  if (auto* prefilling = std::get_if<Prefilling>(&sequence.state)) {
    sequence.state = preempted(sequence, std::move(*prefilling));
  } else {
    sequence.state = preempted(sequence, std::move(std::get<Decoding>(sequence.state)));
  }
  ++sequence.preemptions;
  ++preemptions_;
  ++yielding_;
  leaving_blocks_ += static_cast<int64_t>(residence(sequence.state)->blocks.table().size());
}

void StepScheduler::plan_departures(StepPlan& plan, Flight& flight) {
  for (Sequence* sequence : departing_) plan_departure(*sequence, plan, flight);
  departing_.clear();
}

void StepScheduler::plan_departure(Sequence& sequence, StepPlan& plan, Flight& flight) {
  std::optional<SnapshotChoice> choice;
  const auto choose = [&](const auto& from) {
    choice = snapshot_at_leaving(config_.cache, rule_, from.home, from.written, from.prefill_logits_from);
  };
  // The records of a whole answer are written, and plans run in order: whoever starts from the snapshot does so after
  // the copy.  So it is published at once, and a next turn that is there already finds it.  Other ends may come while
  // rows that are to be saved are in flight and can still fail.
  bool is_written = false;
  if (const auto* yielding = std::get_if<Yielding>(&sequence.state)) {
    choose(*yielding);
  } else if (const auto& ending = std::get<Ending>(sequence.state); ending.reason != EndReason::kError) {
    choose(ending);
    is_written = ending.reason == EndReason::kStop || ending.reason == EndReason::kLength;
  }
  if (choice && plan_save(sequence, *choice, plan, plan.saves_before, flight) && is_written)
    publish_ahead(flight.saves.back());
  plan.retirements.push_back(sequence.request.id);
  flight.retirements.push_back(&sequence);
}

void StepScheduler::plan_prefills(StepPlan& plan, Flight& flight, StepRows& rows) {
  order_.assign(running_.prefilling().begin(), running_.prefilling().end());
  int64_t logit_rows = config_.prompt_logit_rows;
  // Shorter prompts go first, but the oldest has its share whoever comes.
  const Sequence* oldest = running_.oldest_prefilling();
  int64_t kept = (rows.prefill + kOldestShare - 1) / kOldestShare;
  for (Sequence* sequence : order_) {
    if (sequence == oldest) kept = 0;
    const int64_t most = rows.prefill - kept;
    if (most > 0) rows.prefill -= plan_chunk(*sequence, most, logit_rows, plan, flight);
  }
}

// The next rows of a prompt, at most `most`, and of the step's rows for prompt logits what it takes.
int64_t StepScheduler::plan_chunk(Sequence& sequence, int64_t most, int64_t& logit_rows, StepPlan& plan,
                                  Flight& flight) {
  auto& prefilling = std::get<Prefilling>(sequence.state);
  const int64_t known = sequence.known(), begin = prefilling.planned;
  int64_t end = std::min(known, begin + most);
  if (const auto boundary = next_early_boundary(config_.cache, begin, known); boundary && *boundary < end)
    end = *boundary;
  if (prefilling.logits_from < known - 1) {  // every row may give logits
    if (logit_rows == 0) return 0;
    end = std::min(end, begin + logit_rows);
    logit_rows -= end - begin;
  }

  plan.prefills.push_back(
      {.request = sequence.request.id, .position = begin, .rows = end - begin, .last = end == known});
  plan.prefill_rows += end - begin;
  flight.rows.push_back({.sequence = &sequence, .assumed = end == known ? 1 : 0});
  if (const auto choice = snapshot_after_chunk(config_.cache, prefilling.home, end, known))
    plan_save(sequence, *choice, plan, plan.saves_after, flight);
  running_.remove(sequence);
  if (end == known) {
    sequence.state = last_chunk_planned(std::move(prefilling));
  } else {
    prefilling.planned = end;
    sequence.size_class = size_class(known - end, config_.step_rows);
  }
  running_.add(sequence);
  return end - begin;
}

bool StepScheduler::plan_save(Sequence& sequence, const SnapshotChoice& choice, StepPlan& plan,
                              std::vector<SnapshotCopy>& copies, Flight& flight) {
  Residence& home = *residence(sequence.state);
  if (!sequence.request.publish_prefix || home.generation != cache_generation_) return false;
  std::optional<SnapshotPlace> place =
      cache_.place_snapshot({choice.kind, choice.position, home.exact_from, home.draft_context_from});
  if (!place) return false;
  (choice.kind == SnapshotKind::kFull ? home.full_snapshot : home.early_snapshot) = choice.position;
  copies.push_back(copy_of(sequence.request.id, *place, plan));
  flight.saves.push_back({.sequence = &sequence, .place = std::move(*place)});
  return true;
}

}  // namespace deepinfer
