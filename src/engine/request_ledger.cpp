#include "engine/request_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace deepinfer {

void RequestLedger::add(RequestId id, RequestCallback&& on_update, Time submitted, const AnswerMarks& marks) {
  auto recipient = std::make_unique<Recipient>();
  Live& live = live_[id];
  live.recipient = std::move(recipient);
  live.recipient->on_update = std::move(on_update);
  live.submitted = submitted;
  live.summary.marks = marks;
  live.summary.weights_version = weights_version_;
}

void RequestLedger::planned(const StepPlan& plan, Time now) {
  for (const Admission& admission : plan.admissions) {
    Live& live = live_.at(admission.request);
    live.placed = true;
    if (!live.started) {
      live.summary.queued = now - live.submitted;
      live.summary.cached_tokens = std::min(admission.position, admission.known_tokens);
    }
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
    if (found == live_.end() || !found->second.recipient) continue;  // ended before: its tokens are dropped
    Live& live = found->second;
    StepOutcome::Detail& detail = outcome.details[i];
    live.summary.weights_version = weights_version_;
    live.summary.drafted += detail.drafted;
    live.summary.accepted += detail.accepted;
    if (detail.decoded) ++live.summary.rounds;
    if (!detail.failure.ok()) live.summary.failure = std::move(detail.failure);
    if (result.tokens == 0) continue;
    live.summary.answer_tokens += result.tokens;
    if (live.summary.first_token == Time{0}) live.summary.first_token = now - live.submitted;
    DeliveryBatch::Item item;
    item.id = result.request;
    item.recipient = live.recipient.get();
    item.first_token = base + result.first_token;
    item.tokens = result.tokens;
    item.prompt_logprobs = std::move(detail.prompt_logprobs);
    item.choices = std::move(detail.choices);
    item.drafted = detail.drafted;
    item.weights_version = weights_version_;
    item.cached_tokens = live.summary.cached_tokens;
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
  DI_CHECK(found != live_.end() && found->second.recipient, "a request ends once");
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
  auto summary = std::make_unique<RequestSummary>(live.summary);
  DeliveryBatch::Item& item = batch.items.emplace_back();
  item.id = id;
  item.recipient = live.recipient.get();
  item.end = std::move(summary);
  item.released = std::move(live.recipient);
  remove_if_done(id);
}

void RequestLedger::remove_if_done(RequestId id) {
  const auto found = live_.find(id);
  if (found->second.recipient || found->second.placed) return;
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
    if (live.recipient) ids.push_back(id);
  }
  return ids;
}

void RequestLedger::end_all(Time now, FunctionRef<void(RequestId, Recipient&, RequestSummary&)> end) {
  for (auto& [id, live] : live_) {
    if (!live.recipient) continue;
    live.summary.reason = EndReason::kError;
    live.summary.total = now - live.submitted;
    end(id, *live.recipient, live.summary);
  }
  live_.clear();
}

}  // namespace deepinfer
