#include "engine/request_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace deepinfer {

void RequestLedger::add(RequestId id, RequestCallback on_update, Time submitted, const AnswerMarks& marks) {
  Live live;
  live.on_update = std::make_unique<RequestCallback>(std::move(on_update));
  live.submitted = submitted;
  live.summary.marks = marks;
  live.summary.weights_version = weights_version_;
  live_.emplace(id, std::move(live));
}

void RequestLedger::planned(const StepPlan& plan, Time now) {
  for (const Admission& admission : plan.admissions) {
    Live& live = live_.at(admission.request);
    live.placed = true;
    if (!live.started) live.summary.queued = now - live.submitted;
    live.started = true;
  }
  for (const RequestId id : plan.retirements) {
    live_.at(id).placed = false;
    remove_if_done(id);
  }
}

void RequestLedger::report(StepOutcome& outcome, Time now, DeliveryBatch& batch) {
  const auto base = static_cast<int64_t>(batch.tokens.size());
  batch.tokens.insert(batch.tokens.end(), std::make_move_iterator(outcome.tokens.begin()),
                      std::make_move_iterator(outcome.tokens.end()));
  for (size_t i = 0; i < outcome.result.sequences.size(); ++i) {
    const SequenceResult& result = outcome.result.sequences[i];
    const auto found = live_.find(result.request);
    if (found == live_.end() || !found->second.on_update) continue;  // ended before: its tokens are dropped
    Live& live = found->second;
    const StepOutcome::Detail& detail = outcome.details[i];
    live.summary.weights_version = weights_version_;
    live.summary.drafted += detail.drafted;
    live.summary.accepted += detail.accepted;
    if (detail.decoded) ++live.summary.rounds;
    if (!detail.failure.ok()) live.summary.failure = detail.failure;
    if (result.tokens == 0) continue;
    if (live.summary.first_token == Time{0}) live.summary.first_token = now - live.submitted;
    DeliveryBatch::Item item;
    item.id = result.request;
    item.on_update = live.on_update.get();
    item.first_token = base + result.first_token;
    item.tokens = result.tokens;
    item.prompt_logprobs = std::move(outcome.details[i].prompt_logprobs);
    item.choices = std::move(outcome.details[i].choices);
    item.drafted = detail.drafted;
    item.weights_version = weights_version_;
    batch.items.push_back(std::move(item));
  }
}

void RequestLedger::brought(RequestId id, int64_t from, int64_t to) {
  Live& live = live_.at(id);
  live.brought_from = from;
  live.brought_to = to;
}

void RequestLedger::end(const EndedRequest& ended, Time now, DeliveryBatch& batch) {
  const auto found = live_.find(ended.id);
  DI_CHECK(found != live_.end() && found->second.on_update, "a request ends once");
  RequestSummary& summary = found->second.summary;
  summary.prompt_tokens = ended.prompt_tokens;
  summary.answer_tokens = ended.answer_tokens;
  summary.cached_tokens = ended.cached_tokens;
  const Live& live = found->second;
  summary.tier_tokens = std::max<int64_t>(0, std::min(ended.cached_tokens, live.brought_to) - live.brought_from);
  summary.recomputed_tokens = ended.recomputed_tokens;
  summary.swapped_tokens = ended.swapped_tokens;
  finish(ended.id, found->second, ended.reason, now, batch);
}

void RequestLedger::end_unplanned(RequestId id, EndReason reason, Status why, Time now, DeliveryBatch& batch) {
  Live& live = live_.at(id);
  live.summary.failure = std::move(why);
  finish(id, live, reason, now, batch);
}

void RequestLedger::finish(RequestId id, Live& live, EndReason reason, Time now, DeliveryBatch& batch) {
  live.summary.reason = reason;
  live.summary.total = now - live.submitted;
  DeliveryBatch::Item item;
  item.id = id;
  item.on_update = live.on_update.get();
  item.end = std::make_unique<RequestSummary>(live.summary);
  item.released = std::move(live.on_update);
  batch.items.push_back(std::move(item));
  remove_if_done(id);
}

void RequestLedger::remove_if_done(RequestId id) {
  const auto found = live_.find(id);
  if (found->second.on_update || found->second.placed) return;
  live_.erase(found);
  removals_.push_back(id);
}

void RequestLedger::take_removals(std::vector<RequestId>& out) {
  out.insert(out.end(), removals_.begin(), removals_.end());
  removals_.clear();
}

std::vector<RequestId> RequestLedger::unfinished() const {
  std::vector<RequestId> ids;
  for (const auto& [id, live] : live_) {
    if (live.on_update) ids.push_back(id);
  }
  return ids;
}

}  // namespace deepinfer
