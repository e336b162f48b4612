#include "scheduling/scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "scheduling/step_scheduler.h"

namespace deepinfer {
namespace {

// The most tokens, up to `most`, of a sequence that has the cache for itself.
int64_t longest_sequence(const CacheCoordinator& cache, int64_t most) {
  int64_t fits = 0, not_more = most;
  while (fits < not_more) {
    const int64_t middle = fits + (not_more - fits + 1) / 2;
    if (cache.can_ever_fit(middle)) {
      fits = middle;
    } else {
      not_more = middle - 1;
    }
  }
  return fits;
}

int64_t low_water(const CacheGeometry& cache) {
  if (cache.full_snapshot_blocks == 0 || cache.full_snapshot_blocks > cache.blocks / 8) return 0;
  return cache.full_snapshot_blocks + 1;
}

}  // namespace

Status check(const SchedulerConfig& config) {
  const auto at_least = [](const char* field, int64_t value, int64_t least) {
    return value >= least ? Status() : invalid_argument(fmt::format("{} is {}; at least {}", field, value, least));
  };
  const CacheGeometry& cache = config.cache;
  DI_RETURN_IF_ERROR(at_least("cache.blocks", cache.blocks, 1));
  DI_RETURN_IF_ERROR(at_least("cache.tokens_per_block", cache.tokens_per_block, 1));
  DI_RETURN_IF_ERROR(at_least("cache.full_snapshot_blocks", cache.full_snapshot_blocks, 0));
  DI_RETURN_IF_ERROR(at_least("cache.early_snapshot_blocks", cache.early_snapshot_blocks, 0));
  DI_RETURN_IF_ERROR(at_least("cache.early_interval", cache.early_interval, cache.tokens_per_block));
  if (cache.early_interval % cache.tokens_per_block != 0)
    return invalid_argument(fmt::format("cache.early_interval is {}; a multiple of tokens_per_block, {}",
                                        cache.early_interval, cache.tokens_per_block));
  DI_RETURN_IF_ERROR(at_least("max_context", config.max_context, 2));
  DI_RETURN_IF_ERROR(at_least("max_sequences", config.max_sequences, 1));
  DI_RETURN_IF_ERROR(at_least("cache.state_slots", cache.state_slots, config.max_sequences));
  DI_RETURN_IF_ERROR(at_least("prompt_logit_rows", config.prompt_logit_rows, 1));
  DI_RETURN_IF_ERROR(at_least("step_rows", config.step_rows, config.max_sequences));
  DI_RETURN_IF_ERROR(at_least("plans_in_flight", config.plans_in_flight, 1));
  DI_RETURN_IF_ERROR(at_least("decode_latency", config.decode_latency.count(), 1));
  DI_RETURN_IF_ERROR(at_least("most_passes", config.most_passes, 0));
  return at_least("least_chunk", config.least_chunk, 1);
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(const SchedulerConfig& config, const SnapshotRule& rule,
                                                     ChainHash hash) {
  DI_RETURN_IF_ERROR(check(config));
  return std::unique_ptr<Scheduler>(std::make_unique<StepScheduler>(config, rule, hash));
}

StepScheduler::StepScheduler(const SchedulerConfig& config, const SnapshotRule& rule, ChainHash hash)
    : config_(config),
      rule_(rule),
      cache_(config.cache, rule, hash),
      most_sequence_tokens_(longest_sequence(cache_, config.max_context)),
      low_water_(low_water(config.cache)),
      flights_(config.plans_in_flight),
      budget_(config.decode_latency, config.least_chunk) {}

StepScheduler::~StepScheduler() {
  // What is still held goes back to the coordinator, which lives in here as well.
  while (!flights_.empty()) {
    Flight& flight = flights_.oldest();
    for (Flight::Save& save : flight.saves) cache_.release_snapshot(std::move(save.place));
    for (SnapshotPlace& place : flight.restores) cache_.release_snapshot(std::move(place));
    flight.clear();
    flights_.land();
  }
  for (auto& [id, sequence] : sequences_)
    if (Residence* home = residence(sequence->state)) cache_.release(std::move(home->blocks));
}

Status StepScheduler::submit(Request request) {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return invalid_argument("prompt: empty; at least one token");
  if (request.max_tokens < 1) return invalid_argument(fmt::format("max_tokens is {}; at least 1", request.max_tokens));
  if (request.drafts < 0) return invalid_argument(fmt::format("drafts is {}; at least 0", request.drafts));
  if (request.logits_from < -1 || request.logits_from >= prompt)
    return invalid_argument(fmt::format("logits_from is {}; a position of the prompt, 0 to {}, or -1 for its last",
                                        request.logits_from, prompt - 1));
  if (sequences_.contains(request.id))
    return invalid_argument(fmt::format("request id {} is in use; ids are used once", request.id));
  if (prompt >= most_sequence_tokens_)
    return {StatusCode::kInvalidArgument,
            fmt::format("prompt: {} tokens and one of the answer are more than the {} that a sequence can have "
                        "(max_context {}, cache {} blocks of {} tokens)",
                        prompt, most_sequence_tokens_, config_.max_context, config_.cache.blocks,
                        config_.cache.tokens_per_block)};

  auto owned = std::make_unique<Sequence>();
  Sequence& sequence = *owned;
  sequence.tokens = std::move(request.prompt);
  sequence.request = std::move(request);
  sequence.request.prompt.clear();
  sequence.order = submissions_;
  sequence.prompt_tokens = prompt;
  sequence.most_tokens = prompt + std::min(sequence.request.max_tokens, most_sequence_tokens_ - prompt);
  sequences_.emplace(sequence.request.id, std::move(owned));
  const Time deadline = sequence.request.deadline;
  try {
    if (deadline != kNever) deadlines_.emplace(deadline, sequence.request.id);
    queue(sequence);
  } catch (...) {
    deadlines_.erase({deadline, sequence.request.id});
    forget(sequence);
    throw;
  }
  ++submissions_;
  return {};
}

void StepScheduler::queue(Sequence& sequence) {
  const Request& request = sequence.request;
  int64_t rows = sequence.known();
  if (rows > config_.step_rows && request.reuse_prefix)
    rows -= cache_.cached_prefix(request.salt, sequence.tokens, request.reused_below(sequence.logits_from()));
  sequence.size_class = size_class(rows, config_.step_rows);
  waiting_.add(sequence);
}

void StepScheduler::cancel(RequestId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end() || std::holds_alternative<Ending>(found->second->state)) return;
  finish(*found->second, EndReason::kCancelled);
}

void StepScheduler::end_overdue(Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now)
    finish(*sequences_.at(deadlines_.begin()->second), EndReason::kDeadline);
}

void StepScheduler::finish(Sequence& sequence, EndReason reason) {
  const Request& request = sequence.request;
  if (request.deadline != kNever) deadlines_.erase({request.deadline, request.id});
  ended_.push_back({.id = request.id,
                    .reason = reason,
                    .prompt_tokens = sequence.prompt_tokens,
                    .answer_tokens = sequence.answer_tokens(),
                    .cached_tokens = sequence.cached_tokens,
                    .recomputed_tokens = sequence.recomputed_tokens,
                    .swapped_tokens = sequence.swapped_tokens,
                    .preemptions = sequence.preemptions});
  ++ended_count_;

  if (const auto* waiting = std::get_if<Waiting>(&sequence.state)) {
    if (waiting->tier == Waiting::Tier::kAsked) tier_->forget(request.id);
    waiting_.remove(sequence);
    forget(sequence);
  } else if (auto* yielding = std::get_if<Yielding>(&sequence.state)) {  // on its way out already
    sequence.state = ended(sequence, std::move(*yielding), reason);
    --yielding_;
    ++ending_;
  } else {
    running_.remove(sequence);
    if (auto* prefilling = std::get_if<Prefilling>(&sequence.state)) {
      sequence.state = ended(sequence, std::move(*prefilling), reason);
    } else {
      sequence.state = ended(sequence, std::move(std::get<Decoding>(sequence.state)), reason);
    }
    ++ending_;
    leaving_blocks_ += static_cast<int64_t>(residence(sequence.state)->blocks.table().size());
    departing_.push_back(&sequence);
  }
}

void StepScheduler::forget(Sequence& sequence) {
  sequences_.erase(sequence.request.id);
}

void StepScheduler::take_ended(std::vector<EndedRequest>& out) {
  out.clear();
  std::swap(out, ended_);
}

Time StepScheduler::next_deadline() const {
  return deadlines_.empty() ? kNever : deadlines_.begin()->first;
}

int64_t StepScheduler::cached_prefix(const Request& request) const {
  if (!request.reuse_prefix) return 0;
  const int64_t last = static_cast<int64_t>(request.prompt.size()) - 1;
  const int64_t wanted = request.logits_from < 0 ? last : request.logits_from;
  return cache_.cached_prefix(request.salt, request.prompt, request.reused_below(wanted));
}

bool StepScheduler::adopt_prefix(uint64_t salt, std::span<const int32_t> tokens, const SnapshotInfo& info,
                                 FillBlocks fill) {
  if (!cache_.adopt(salt, tokens, info, running_.size(), fill)) return false;
  ++publications_;
  return true;
}

void StepScheduler::set_tier(CacheTier* tier) {
  tier_ = tier;
  // Who waits for the one that goes asks the one that comes.
  for (auto& [id, sequence] : sequences_) {
    auto* waiting = std::get_if<Waiting>(&sequence->state);
    if (waiting == nullptr || waiting->tier != Waiting::Tier::kAsked) continue;
    waiting->tier = Waiting::Tier::kNotAsked;
    waiting->tried_room = -1;
  }
}

void StepScheduler::tier_answered(RequestId request, int64_t brought) {
  const auto found = sequences_.find(request);
  if (found == sequences_.end()) return;
  auto* waiting = std::get_if<Waiting>(&found->second->state);
  if (waiting == nullptr || waiting->tier != Waiting::Tier::kAsked) return;
  waiting_.remove(*found->second);
  waiting->tier = Waiting::Tier::kAnswered;
  waiting->brought = brought;
  waiting->tried_room = -1;
  queue(*found->second);
}

SchedulerStats StepScheduler::stats() const {
  return {.waiting = waiting_.size() + yielding_,
          .running = running_.size(),
          .prefilling = static_cast<int64_t>(running_.prefilling().size()),
          .ending = ending_,
          .held_blocks = cache_.held_blocks(),
          .available_blocks = cache_.available_blocks(),
          .total_blocks = config_.cache.blocks,
          .preemptions = preemptions_,
          .recomputed_tokens = recomputed_tokens_,
          .swapped_tokens = swapped_tokens_,
          .admitted = static_cast<int64_t>(admissions_),
          .ended = ended_count_,
          .submitted = static_cast<int64_t>(submissions_),
          .prompt_tokens = prompt_tokens_,
          .cached_tokens = cached_tokens_,
          .answer_tokens = answer_tokens_};
}

bool StepScheduler::idle() const {
  return sequences_.empty() && flights_.empty();
}

void StepScheduler::clear_cache() {
  ++cache_generation_;  // what runs now keeps its blocks and publishes nothing
  cache_.clear_cache();
}

}  // namespace deepinfer
