#include "load/arriving_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace deepinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

struct Stream {
  int64_t tokens = 0;
  std::vector<Clock::time_point> deliveries;
  bool ended = false;
  Status failure;
};

// Calls come from the engine's output thread.
class Watch {
 public:
  explicit Watch(size_t streams) : streams_(streams) {}

  void stream_update(size_t stream, const RequestUpdate& update) {
    const auto now = Clock::now();
    {
      const std::lock_guard lock(mutex_);
      Stream& seen = streams_[stream];
      if (!update.tokens.empty()) seen.deliveries.push_back(now);
      seen.tokens += std::ssize(update.tokens);
      if (update.end != nullptr) end(seen, *update.end);
    }
    changed_.notify_one();
  }
  void prompt_update(const RequestUpdate& update) {
    const auto now = Clock::now();
    {
      const std::lock_guard lock(mutex_);
      if (!update.tokens.empty() && prompt_.deliveries.empty()) prompt_.deliveries.push_back(now);
      if (update.end != nullptr) end(prompt_, *update.end);
    }
    changed_.notify_one();
  }

  // False: a stream has ended before.
  bool wait_for_streams(int64_t tokens) {
    std::unique_lock lock(mutex_);
    const auto all_have = [&] {
      return std::all_of(streams_.begin(), streams_.end(), [&](const Stream& s) { return s.tokens >= tokens; });
    };
    changed_.wait(lock, [&] { return some_ended() || all_have(); });
    return !some_ended();
  }
  bool wait_for_prompt() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return some_ended() || !prompt_.deliveries.empty() || prompt_.ended; });
    return !some_ended() && !prompt_.deliveries.empty();
  }

  // After the last update.
  const std::vector<Stream>& streams() const { return streams_; }
  const Stream& prompt() const { return prompt_; }

 private:
  static void end(Stream& seen, const RequestSummary& summary) {
    seen.ended = true;
    seen.failure = summary.failure;
  }
  bool some_ended() const {
    return std::any_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.ended; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Stream> streams_;
  Stream prompt_;
};

Status why_too_early(const Watch& watch) {
  for (const Stream& stream : watch.streams()) DI_RETURN_IF_ERROR(stream.failure);
  DI_RETURN_IF_ERROR(watch.prompt().failure);
  return invalid_argument(fmt::format(
      "a stream ended with {} tokens, before the arriving prompt had its first; allowed: streams that go on until "
      "then (a larger --max-context)",
      std::max_element(watch.streams().begin(), watch.streams().end(), [](const Stream& a, const Stream& b) {
        return a.ended < b.ended;
      })->tokens));
}

}  // namespace

Result<ArrivingPromptResult> run_arriving_prompt(Engine& engine, std::vector<EngineRequest> streams,
                                                 EngineRequest prompt, int64_t alone_tokens) {
  Watch watch(streams.size());
  std::vector<RequestId> ids;
  // The callbacks end before the watch does.
  const auto stop = [&] {
    for (const RequestId id : ids) engine.cancel(id);
    engine.drain();
  };
  for (size_t i = 0; i < streams.size(); ++i) {
    const Result<RequestId> id = engine.submit(
        std::move(streams[i]), [&watch, i](const RequestUpdate& update) { watch.stream_update(i, update); });
    if (!id.ok()) {
      stop();
      return id.status();
    }
    ids.push_back(*id);
  }
  ArrivingPromptResult result;
  result.streams = std::ssize(ids);
  result.prompt_tokens = std::ssize(prompt.prompt);
  if (!watch.wait_for_streams(alone_tokens)) {
    stop();
    return why_too_early(watch);
  }
  const int64_t steps_before = engine.stats().steps;
  const auto submitted = Clock::now();
  const Result<RequestId> id =
      engine.submit(std::move(prompt), [&watch](const RequestUpdate& update) { watch.prompt_update(update); });
  if (!id.ok()) {
    stop();
    return id.status();
  }
  ids.push_back(*id);
  const bool in_time = watch.wait_for_prompt();
  result.steps_beside = engine.stats().steps - steps_before;
  stop();
  if (!in_time) return why_too_early(watch);

  const auto answered = watch.prompt().deliveries.front();
  result.first_token = seconds(answered - submitted);
  std::vector<double> alone, beside;
  for (const Stream& stream : watch.streams()) {
    for (size_t i = 1; i < stream.deliveries.size() && stream.deliveries[i - 1] < answered; ++i) {
      // A wait during which the prompt came is one beside it.
      const bool before = stream.deliveries[i] <= submitted;
      (before ? alone : beside).push_back(seconds(stream.deliveries[i] - stream.deliveries[i - 1]));
    }
  }
  if (beside.empty()) return Status(StatusCode::kInternal, "no stream had a token while the prompt was computed");
  result.waits_beside = std::ssize(beside);
  result.longest_beside = *std::max_element(beside.begin(), beside.end());
  result.alone = percentiles(std::move(alone));
  result.beside = percentiles(std::move(beside));
  return result;
}

}  // namespace deepinfer::cli
