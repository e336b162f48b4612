#include "serving/api/scripted_engine.h"

#include <algorithm>
#include <utility>

namespace deepinfer::serving {

ScriptedEngine::ScriptedEngine(const Tokenizer& tokenizer, Script script)
    : tokenizer_(tokenizer), script_(std::move(script)), thread_([this] { run(); }) {}

ScriptedEngine::~ScriptedEngine() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const Running& running : running_) cancelled_.insert(running.id);
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<EngineRequest> ScriptedEngine::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

size_t ScriptedEngine::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_running_;
}

Result<RequestId> ScriptedEngine::submit(EngineRequest request, RequestCallback on_update) {
  if (!refusal_.ok()) return refusal_;
  DI_RETURN_IF_ERROR(validate(request.params, vocabulary()));
  Running running;
  running.answer = script_(request);
  running.on_update = std::move(on_update);
  running.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  const RequestId id = running.id = next_++;
  seen_.push_back(std::move(request));
  running_.push_back(std::move(running));
  changed_.notify_all();
  return id;
}

void ScriptedEngine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  cancelled_.insert(id);
  changed_.notify_all();
}

void ScriptedEngine::fail(Status why) {
  const std::lock_guard lock(mutex_);
  state_ = EngineState::kFailed;
  failure_ = std::move(why);
  changed_.notify_all();
}

std::vector<std::string> ScriptedEngine::forgotten() const {
  const std::lock_guard lock(mutex_);
  return forgotten_;
}

Status ScriptedEngine::pause(PauseMode mode) {
  std::unique_lock lock(mutex_);
  if (state_ != EngineState::kRunning) return invalid_argument("pause: the engine does not run");
  if (mode == PauseMode::kDrain) changed_.wait(lock, [this] { return running_.empty() || closing_; });
  state_ = EngineState::kPaused;
  return {};
}

Status ScriptedEngine::resume() {
  const std::lock_guard lock(mutex_);
  if (state_ != EngineState::kPaused) return invalid_argument("resume: the engine is not paused");
  state_ = EngineState::kRunning;
  return {};
}

Status ScriptedEngine::forget_prefixes(PrefixTiers tiers) {
  const std::lock_guard lock(mutex_);
  forgotten_.push_back(tiers.device && tiers.host ? "device host" : tiers.device ? "device" : "host");
  return {};
}

EngineStats ScriptedEngine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats;
  stats.state = state_;
  stats.failure = failure_;
  stats.scheduler.running = static_cast<int64_t>(running_.size());
  return stats;
}

bool ScriptedEngine::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_.empty(); });
  return true;
}

void ScriptedEngine::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    const auto can_advance = [this](const Running& running) {
      return !running.answer.holds || running.step < running.answer.steps.size() || cancelled_.contains(running.id) ||
             !failure_.ok();
    };
    changed_.wait(lock, [&] {
      return (closing_ && running_.empty()) || std::any_of(running_.begin(), running_.end(), can_advance);
    });
    if (running_.empty()) return;
    // In turns, so that requests are interleaved.
    while (!can_advance(running_.front())) {
      running_.push_back(std::move(running_.front()));
      running_.pop_front();
    }
    Running running = std::move(running_.front());
    running_.front().id = running.id;
    lock.unlock();
    const bool goes_on = advance(running);
    lock.lock();
    running_.pop_front();
    if (goes_on) running_.push_back(std::move(running));
    changed_.notify_all();
  }
}

bool ScriptedEngine::advance(Running& running) {
  const ScriptedAnswer& answer = running.answer;
  bool cancelled = false;
  Status failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
    cancelled = cancelled_.contains(running.id);
    cancelled_running_ += cancelled;
  }
  RequestUpdate update;
  update.id = running.id;
  if (!cancelled && failure.ok() && running.step < answer.steps.size()) {
    if (running.step == 0) update.prompt_logprobs = answer.prompt_logprobs;
    update.tokens = answer.steps[running.step++];
    update.cached_tokens = answer.cached_tokens;
    running.on_update(update);
    return true;
  }
  RequestSummary summary;
  summary.reason = cancelled ? EndReason::kCancelled : failure.ok() ? answer.end : EndReason::kError;
  summary.failure = failure.ok() ? answer.failure : failure;
  summary.prompt_tokens = running.prompt_tokens;
  summary.cached_tokens = answer.cached_tokens;
  summary.drafted = answer.drafted;
  summary.accepted = answer.accepted;
  update.end = &summary;
  running.on_update(update);
  return false;
}

ScriptedAnswer scripted_text(const Tokenizer& tokenizer, std::string_view text, EndReason end) {
  std::vector<int32_t> ids;
  DI_CHECK(tokenizer.encode(text, ids).ok(), "the text of a script");
  ScriptedAnswer answer;
  for (const int32_t id : ids) {
    GeneratedToken token;
    token.token = id;
    answer.steps.push_back({token});
  }
  answer.end = end;
  return answer;
}

}  // namespace deepinfer::serving
