// PendingAnswer: what one request has produced and nobody has read yet.  Filled by the engine's output thread, which
// never waits for the interpreter's lock while it holds the answer's own; read by Python threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/text_generation.h"

namespace deepinfer::python {

// How a request ended, in the words of the Python package.
struct AnswerOutcome {
  EndReason reason = EndReason::kStop;
  Status failure;
  int stop_string = -1;
  RequestSummary numbers;
};

// Everything that came since the last look.
struct AnswerNews {
  std::string text;
  std::vector<GeneratedToken> tokens;
  struct Step {
    int64_t tokens = 0;  // delivered together; all steps have tokens.size()
    int64_t drafted = 0;
    int64_t weights_version = 0;
  };
  std::vector<Step> steps;
  TokenChoices choices;  // where asked for
  std::vector<GeneratedToken> prompt_logprobs;
  std::optional<AnswerOutcome> end;
};

class PendingAnswer {
 public:
  // `on_news` is called on the output thread when there is something to read and the reader has read all before.
  explicit PendingAnswer(std::function<void()> on_news) : on_news_(std::move(on_news)) {}

  void update(const TextUpdate& update);
  // The request could not be given to the engine, or was cancelled before: there is no update.
  void end_unsent(EndReason reason, Status failure);
  AnswerNews take();
  // True once the answer has ended.
  bool wait_end(std::chrono::nanoseconds timeout);

  // The request's number, once the engine has it; whether somebody wants it cancelled.  What cancels before there is a
  // number is seen by whoever sends the request, who looks at `cancelled` after setting `id`.
  std::atomic<int64_t> id{-1};
  std::atomic<bool> cancelled{false};

 private:
  void tell(bool news);

  std::mutex mutex_;
  std::condition_variable ended_signal_;
  AnswerNews news_;
  bool told_ = false;
  bool ended_ = false;
  std::function<void()> on_news_;
};

}  // namespace deepinfer::python
