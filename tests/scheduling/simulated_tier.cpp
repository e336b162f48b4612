#include "scheduling/simulated_tier.h"

#include <algorithm>

#include "base/check.h"
#include "scheduling/fake_model.h"

namespace deepinfer::testing {

SimulatedTier::SimulatedTier(Scheduler& scheduler, SymbolicExecutor& executor, const SnapshotRule& rule,
                             const TierFaults& faults, uint64_t seed)
    : scheduler_(scheduler), executor_(executor), rule_(rule), faults_(faults), random_(seed) {
  scheduler_.set_tier(this);
}

void SimulatedTier::published(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                              const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks) {
  DI_CHECK(static_cast<int64_t>(tokens.size()) == info.position, "the tokens below the snapshot");
  Kept kept{.tokens = {tokens.begin(), tokens.end()}, .info = info, .blocks = {}, .from = 0};
  uint64_t record = first_record(salt);
  size_t position = 0;
  for (const BlockId block : blocks) {
    kept.blocks.push_back(executor_.block(block));
    for (const uint64_t written : kept.blocks.back().records)
      DI_CHECK(written == (record = next_record(record, tokens[position++])), "what is published is written");
  }
  DI_CHECK(position == tokens.size(), "a block for each of its tokens");
  for (const BlockId block : snapshot_blocks) {
    kept.blocks.push_back(executor_.block(block));
    DI_CHECK(kept.blocks.back().snapshot != 0, "the snapshot is written");
  }
  if (chance(faults_.lost_write)) return;
  kept.from = now_ + below(faults_.write_delay + 1);
  kept_.emplace_back(salt, std::move(kept));
  if (static_cast<int64_t>(kept_.size()) > faults_.capacity) kept_.pop_front();
}

bool SimulatedTier::bring_back(const LostPrefix& lost, Time) {
  DI_CHECK(!questions_.contains(lost.request), "a request asks once at a time");
  DI_CHECK(lost.cached < lost.written && lost.written <= static_cast<int64_t>(lost.tokens.size()), "something is lost");
  if (chance(faults_.declined)) return false;
  ++questions;
  questions_[lost.request] = {.salt = lost.salt,
                              .tokens = {lost.tokens.begin(), lost.tokens.end()},
                              .logits_from = lost.logits_from,
                              .cached = lost.cached,
                              .answered = now_ + below(faults_.read_delay + 1),
                              .overdue = now_ + faults_.patience,
                              .fails = chance(faults_.failed_read)};
  return true;
}

void SimulatedTier::forget(RequestId request) {
  DI_CHECK(questions_.erase(request) == 1, "who waits is forgotten");
}

void SimulatedTier::tick() {
  ++now_;
  for (auto next = questions_.begin(); next != questions_.end();) {
    const RequestId id = next->first;
    const Question& question = next->second;
    if (question.overdue <= now_) {
      ++late;
      scheduler_.tier_answered(id, 0);
    } else if (question.answered <= now_) {
      const Kept* kept = question.fails ? nullptr : find(question);
      const bool brought = kept != nullptr && adopt(question.salt, *kept);
      found += brought;
      scheduler_.tier_answered(id, brought ? kept->info.position : 0);
    } else {
      ++next;
      continue;
    }
    next = questions_.erase(next);
  }
  if (!kept_.empty() && chance(0.02)) {
    const auto& [salt, kept] = kept_[static_cast<size_t>(below(static_cast<int64_t>(kept_.size())))];
    adopt(salt, kept);
  }
  // An answer for somebody who does not wait.
  if (const RequestId id = 1 + random_() % 1000; !questions_.contains(id)) scheduler_.tier_answered(id, 5);
}

const SimulatedTier::Kept* SimulatedTier::find(const Question& question) const {
  const Kept* best = nullptr;
  for (const auto& [salt, kept] : kept_) {
    const int64_t position = kept.info.position;
    if (salt != question.salt || kept.from > now_ || position <= question.cached) continue;
    if (position > std::min(question.logits_from, static_cast<int64_t>(question.tokens.size()) - 1)) continue;
    if (best != nullptr && best->info.position >= position) continue;
    SnapshotInfo early = kept.info;
    early.kind = SnapshotKind::kEarly;
    if (!rule_.usable(kept.info, question.logits_from) && !rule_.usable(early, question.logits_from)) continue;
    if (std::equal(kept.tokens.begin(), kept.tokens.end(), question.tokens.begin())) best = &kept;
  }
  return best;
}

bool SimulatedTier::adopt(uint64_t salt, const Kept& kept) {
  const bool adopted = scheduler_.adopt_prefix(
      salt, kept.tokens, kept.info, [&](std::span<const BlockId> blocks, std::span<const BlockId> snapshot_blocks) {
        executor_.fill(blocks, std::span(kept.blocks).first(blocks.size()));
        executor_.fill(snapshot_blocks, std::span(kept.blocks).subspan(blocks.size()));
      });
  without_room += !adopted;
  return adopted;
}

}  // namespace deepinfer::testing
