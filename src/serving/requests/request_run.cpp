#include "serving/requests/request_run.h"

#include <utility>

namespace deepinfer::serving {

Status RequestRun::submit(PreparedRequest prepared) {
  const std::lock_guard lock(mutex_);  // updates wait until all are in
  answer_ = std::move(prepared.answer);
  over_.assign(static_cast<size_t>(prepared.choices), 0);
  open_choices_ = prepared.choices;
  const bool has_grammar = prepared.request.grammar.has_value();
  for (int choice = 0; choice < prepared.choices; ++choice) {
    const bool last = choice + 1 == prepared.choices;
    EngineRequest request = last ? std::move(prepared.request) : prepared.request;
    request.choice = static_cast<uint32_t>(choice);
    if (choice > 0) request.prompt_logprobs = -1;  // those of the first are those of all
    const Result<RequestId> id = engine_.submit(
        std::move(request),
        [self = shared_from_this(), choice](const RequestUpdate& update) { self->update(choice, update); });
    if (!id.ok()) {
      refused_ = true;
      cancel();
      return id.status();
    }
    const std::lock_guard ids_lock(ids_mutex_);
    ids_.push_back(*id);
    if (cancelled_) engine_.cancel(*id);
  }
  // A grammar is compiled after its request was accepted, and may be wrong.
  accepted(!has_grammar);
  if (!has_grammar) open();
  return {};
}

void RequestRun::cancel() {
  cancelled_ = true;
  const std::lock_guard lock(ids_mutex_);
  for (const RequestId id : ids_) engine_.cancel(id);
}

void RequestRun::open() {
  if (std::exchange(opened_, true)) return;
  answer_->open([this](std::string_view name, std::string_view data) { event(name, data); });
  updated(0);
}

void RequestRun::update(int choice, const RequestUpdate& update) {
  const std::lock_guard lock(mutex_);
  if (refused_) return;
  const auto sink = [this](std::string_view name, std::string_view data) { event(name, data); };
  if (!update.tokens.empty() || !update.prompt_logprobs.empty()) open();
  if (!update.prompt_logprobs.empty()) answer_->take_prompt_logprobs(update.prompt_logprobs);
  char& over = over_[static_cast<size_t>(choice)];
  for (const GeneratedToken& token : update.tokens) {
    if (over) break;
    over = !answer_->take(choice, token, sink);
    if (over && answer_->stopped(choice)) engine_.cancel(update.id);
  }
  if (update.end != nullptr) take_end(choice, *update.end);
  updated(static_cast<int64_t>(update.tokens.size()));
  if (update.end != nullptr && open_choices_ == 0) ended(summary_);
}

void RequestRun::take_end(int choice, const RequestSummary& summary) {
  const bool stopped = answer_->stopped(choice);
  const EndReason reason = stopped ? EndReason::kStop : summary.reason;
  if (summary_.whole()) {
    summary_.reason = reason;
    summary_.failure = summary.failure;
  }
  if (open_choices_ == static_cast<int>(over_.size())) {
    summary_.cached_tokens = summary.cached_tokens;
    summary_.queued = summary.queued;
  }
  if (summary_.first_token == Time{0} || (summary.first_token > Time{0} && summary.first_token < summary_.first_token))
    summary_.first_token = summary.first_token;
  summary_.drafted += summary.drafted;
  summary_.accepted += summary.accepted;
  summary_.prompt_tokens = summary.prompt_tokens;
  summary_.answer_tokens += summary.answer_tokens;
  if (summary_.whole()) {
    open();
    answer_->end(choice, summary, [this](std::string_view name, std::string_view data) { event(name, data); });
  } else {
    cancel();  // the other choices are of no use without this one
  }
  --open_choices_;
}

}  // namespace deepinfer::serving
