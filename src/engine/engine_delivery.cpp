// What the output thread does: updates go to the requests' callbacks, in order; when the engine has failed it ends all
// that were accepted.
#include <utility>

#include "base/caught_exception.h"
#include "engine/threaded_engine.h"

namespace deepinfer {

void ThreadedEngine::deliver() {
  for (DeliveryBatch batch; deliveries_.pop(batch);) hand_out(batch);
  if (failed()) end_all_failed();
}

void ThreadedEngine::call(RequestId id, Recipient& recipient, const RequestUpdate& update) {
  if (!recipient.failure.ok() && update.end == nullptr) return;
  try {
    recipient.on_update(update);
  } catch (...) {
    recipient.failure = caught_exception("the request's callback");
    if (update.end == nullptr) cancel(id);
  }
}

void ThreadedEngine::hand_out(DeliveryBatch& batch) {
  const Time start = now();
  int64_t ends = 0;
  for (DeliveryBatch::Item& item : batch.items) {
    Recipient& recipient = *item.recipient;
    if (item.end && !recipient.failure.ok()) {
      item.end->reason = EndReason::kError;
      item.end->failure = copy_without_fail(recipient.failure);
    }
    RequestUpdate update;
    update.id = item.id;
    update.tokens = std::span<const GeneratedToken>(batch.tokens)
                        .subspan(static_cast<size_t>(item.first_token), static_cast<size_t>(item.tokens));
    update.prompt_logprobs = item.prompt_logprobs;
    update.end = item.end.get();
    update.drafted = item.drafted;
    update.weights_version = item.weights_version;
    update.cached_tokens = item.cached_tokens;
    update.choices = item.choices.get();
    observe([&](EngineObserver& o) { o.updated(update, start); });
    call(item.id, recipient, update);
    if (item.end) ++ends;
  }
  observe([&](EngineObserver& o) { o.delivered(static_cast<int64_t>(batch.items.size()), start, now()); });
  const bool ends_change = batch.ends_change;
  batch = {};  // callbacks go before drain() returns
  if (ends_change) lifecycle_.delivered();
  if (ends == 0 && !ends_change) return;
  {
    const std::lock_guard lock(mutex_);
    undelivered_ -= ends;
  }
  delivered_.notify_all();
}

void ThreadedEngine::end_failed(RequestId id, Recipient& recipient, RequestSummary& summary) {
  summary.reason = EndReason::kError;
  const Status& why = recipient.failure.ok() ? failure_ : recipient.failure;
  if (summary.failure.ok()) summary.failure = copy_without_fail(why);
  RequestUpdate update;
  update.id = id;
  update.end = &summary;
  update.weights_version = summary.weights_version;
  observe([&](EngineObserver& o) {
    o.request_ended(id, summary, now());
    o.updated(update, now());
  });
  call(id, recipient, update);
  const std::lock_guard lock(mutex_);
  --undelivered_;
}

// Nothing here asks for memory.
void ThreadedEngine::end_all_failed() {
  const std::lock_guard planning(planning_mutex_);  // whoever planned has left, and what it handed over is there
  for (DeliveryBatch batch; deliveries_.try_pop(batch);) hand_out(batch);
  hand_out(outgoing_);
  ledger_.end_all(now(), [this](RequestId id, Recipient& recipient, RequestSummary& summary) {
    end_failed(id, recipient, summary);
  });
  // Those that the ledger has not come to know.
  std::vector<Submission> submissions;
  {
    const std::lock_guard lock(mutex_);
    submissions.swap(inbox_.submissions);
  }
  for (std::vector<Submission>* unknown : {&taken_.submissions, &submissions}) {
    for (Submission& submission : *unknown) {
      if (!submission.on_update) continue;
      Recipient recipient{std::move(submission.on_update), {}};
      RequestSummary summary;
      summary.marks = submission.marks;
      summary.total = now() - submission.at;
      end_failed(submission.request.id, recipient, summary);
    }
    unknown->clear();
  }
  delivered_.notify_all();
}

}  // namespace deepinfer
