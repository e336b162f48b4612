#include "serving/requests/request_run.h"

#include <utility>

namespace deepinfer::serving {

Status RequestRun::submit(PreparedRequest prepared) {
  const std::lock_guard lock(mutex_);  // updates wait until all are in
  answer_ = std::move(prepared.answer);
  const auto answers = static_cast<int>(prepared.answers());
  over_.assign(static_cast<size_t>(answers), 0);
  open_choices_ = answers;
  prompt_tokens_.assign(prepared.prompts.size(), 0);
  choices_ = prepared.choices;
  const bool has_grammar = prepared.prompts.front().grammar.has_value();
  for (int choice = 0; choice < answers; ++choice) {
    EngineRequest& prompt = prepared.prompts[static_cast<size_t>(choice / choices_)];
    const int own = choice % choices_;
    EngineRequest request = own + 1 == choices_ ? std::move(prompt) : prompt;
    request.choice = static_cast<uint32_t>(own);
    if (own > 0 && !prepared.every_prompt_logprobs) request.prompt_logprobs = -1;
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
  if (!has_grammar && !prepared.opens_with_first_token) open(0);
  return {};
}

void RequestRun::cancel() {
  cancelled_ = true;
  const std::lock_guard lock(ids_mutex_);
  for (const RequestId id : ids_) engine_.cancel(id);
}

void RequestRun::open(int64_t cached_tokens) {
  if (std::exchange(opened_, true)) return;
  answer_->open(cached_tokens, [this](std::string_view name, std::string_view data) { event(name, data); });
  updated(0);
}

void RequestRun::update(int choice, const RequestUpdate& update) {
  const std::lock_guard lock(mutex_);
  if (refused_) return;
  const auto sink = [this](std::string_view name, std::string_view data) { event(name, data); };
  if (!update.tokens.empty() || !update.prompt_logprobs.empty()) open(update.cached_tokens);
  if (!update.prompt_logprobs.empty()) answer_->take_prompt_logprobs(choice, update.prompt_logprobs);
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
  if (open_choices_ == static_cast<int>(over_.size())) summary_.queued = summary.queued;
  if (summary_.first_token == Time{0} || (summary.first_token > Time{0} && summary.first_token < summary_.first_token))
    summary_.first_token = summary.first_token;
  summary_.drafted += summary.drafted;
  summary_.accepted += summary.accepted;
  int64_t& prompt_tokens = prompt_tokens_[static_cast<size_t>(choice / choices_)];
  if (prompt_tokens == 0) summary_.cached_tokens += summary.cached_tokens;
  summary_.prompt_tokens += summary.prompt_tokens - prompt_tokens;
  prompt_tokens = summary.prompt_tokens;
  summary_.answer_tokens += summary.answer_tokens;
  if (summary_.whole()) {
    open(summary.cached_tokens);
    answer_->end(choice, summary, [this](std::string_view name, std::string_view data) { event(name, data); });
  } else {
    cancel();  // the other choices are of no use without this one
  }
  --open_choices_;
}

}  // namespace deepinfer::serving
