#include "answer.h"

#include <utility>

namespace deepinfer::python {

void PendingAnswer::update(const TextUpdate& update) {
  bool news = false;
  {
    std::lock_guard lock(mutex_);
    news_.text += update.text;
    news_.tokens.insert(news_.tokens.end(), update.tokens.begin(), update.tokens.end());
    if (!update.tokens.empty())
      news_.steps.push_back({static_cast<int64_t>(update.tokens.size()), update.drafted, update.weights_version});
    if (update.choices != nullptr) {
      const TokenChoices& more = *update.choices;
      news_.choices.experts.insert(news_.choices.experts.end(), more.experts.begin(), more.experts.end());
      news_.choices.selected.insert(news_.choices.selected.end(), more.selected.begin(), more.selected.end());
    }
    news_.prompt_logprobs.insert(news_.prompt_logprobs.end(), update.prompt_logprobs.begin(),
                                 update.prompt_logprobs.end());
    if (update.end != nullptr) {
      const RequestSummary& numbers = update.end->request;
      news_.end = AnswerOutcome{numbers.reason, numbers.failure, update.end->stop_string, numbers};
      ended_ = true;
      ended_signal_.notify_all();
    }
    news = !std::exchange(told_, true);
  }
  tell(news);
}

void PendingAnswer::end_unsent(EndReason reason, Status failure) {
  bool news = false;
  {
    std::lock_guard lock(mutex_);
    news_.end = AnswerOutcome{reason, std::move(failure), -1, {}};
    ended_ = true;
    ended_signal_.notify_all();
    news = !std::exchange(told_, true);
  }
  tell(news);
}

void PendingAnswer::tell(bool news) {
  if (news && on_news_ != nullptr) on_news_();
}

AnswerNews PendingAnswer::take() {
  std::lock_guard lock(mutex_);
  told_ = false;
  return std::exchange(news_, {});
}

bool PendingAnswer::wait_end(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return ended_signal_.wait_for(lock, timeout, [&] { return ended_; });
}

}  // namespace deepinfer::python
