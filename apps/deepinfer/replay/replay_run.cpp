#include "replay/replay_run.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "replay/answer_difference.h"

namespace deepinfer::cli {
namespace {

class Replay {
 public:
  Replay(Engine& engine, const ReplayOptions& options,
         const std::function<void(RequestId, const std::string&)>& on_difference)
      : engine_(engine), options_(options), on_difference_(on_difference) {}

  ReplayCounts run(RequestLogContents log) {
    const auto start = std::chrono::steady_clock::now();
    for (LoggedRequest& logged : log.requests) {
      if (!logged.answer) {
        ++counts_.unfinished;
      } else if (logged.answer->weights_version != 0) {
        ++counts_.other_weights;
      } else if (!is_repeatable(logged.request)) {
        ++counts_.drafted;
      } else if (is_beginning(*logged.answer) && logged.answer->tokens.empty()) {
        ++counts_.empty;
      } else {
        if (options_.recorded_speed) std::this_thread::sleep_until(start + (logged.at - log.requests.front().at));
        submit(std::move(logged));
      }
    }
    engine_.drain();
    return counts_;
  }

 private:
  struct Running {
    LoggedRequest logged;
    ReplayedAnswer answer;
  };

  EngineRequest again(const LoggedRequest& logged) const {
    EngineRequest request = logged.request;
    request.timeout = {};
    if (is_beginning(*logged.answer)) request.params.max_tokens = std::ssize(logged.answer->tokens);
    if (options_.draft_tokens) request.params.draft_tokens = *options_.draft_tokens;
    return request;
  }

  void submit(LoggedRequest logged) {
    {
      std::unique_lock lock(mutex_);
      some_ended_.wait(lock, [&] { return options_.recorded_speed || running_ < options_.submitted; });
      ++running_;
    }
    EngineRequest request = again(logged);
    auto running = std::make_shared<Running>();
    running->logged = std::move(logged);
    const auto submitted = engine_.submit(std::move(request), [this, running](const RequestUpdate& update) {
      ReplayedAnswer& answer = running->answer;
      answer.tokens.insert(answer.tokens.end(), update.tokens.begin(), update.tokens.end());
      answer.prompt_logprobs.insert(answer.prompt_logprobs.end(), update.prompt_logprobs.begin(),
                                    update.prompt_logprobs.end());
      if (update.end == nullptr) return;
      answer.summary = *update.end;
      end(running->logged.id, first_difference(running->logged, answer));
    });
    if (!submitted.ok()) end(running->logged.id, "it was refused: " + submitted.status().message());
  }

  void end(RequestId id, const std::optional<std::string>& difference) {
    {
      const std::lock_guard lock(mutex_);
      --running_;
      ++(difference ? counts_.different : counts_.same);
      if (difference) on_difference_(id, *difference);
    }
    some_ended_.notify_one();
  }

  Engine& engine_;
  const ReplayOptions& options_;
  const std::function<void(RequestId, const std::string&)>& on_difference_;
  std::mutex mutex_;
  std::condition_variable some_ended_;
  int64_t running_ = 0;
  ReplayCounts counts_;
};

}  // namespace

ReplayCounts replay(Engine& engine, RequestLogContents log, const ReplayOptions& options,
                    const std::function<void(RequestId id, const std::string& difference)>& on_difference) {
  return Replay(engine, options, on_difference).run(std::move(log));
}

}  // namespace deepinfer::cli
