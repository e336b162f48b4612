#include "engine/lifecycle.h"

#include <fmt/format.h>

#include "base/caught_exception.h"
#include "base/check.h"

namespace deepinfer {

std::string_view to_string(EngineState state) {
  switch (state) {
    case EngineState::kRunning:
      return "running";
    case EngineState::kPaused:
      return "paused";
    case EngineState::kAsleep:
      return "asleep";
    case EngineState::kFailed:
      return "failed";
  }
  return "unknown";
}

Status Lifecycle::check(std::string_view call, bool allowed, std::string_view when) const {
  if (!closed_.ok()) return copy_without_fail(closed_);
  if (change_)
    return invalid_argument(fmt::format("{}: {} is under way; allowed: one change at a time", call, change_->call));
  if (allowed) return {};
  return invalid_argument(fmt::format("{}: the engine is {}; allowed: {}", call, to_string(state_), when));
}

Status Lifecycle::make(std::unique_lock<std::mutex>& lock, Change wanted) {
  const auto change = std::make_shared<Change>(std::move(wanted));
  change_ = change;
  lock.unlock();
  wake_();
  lock.lock();
  done_.wait(lock, [&] { return change->done || !closed_.ok(); });
  if (!change->done) return copy_without_fail(closed_);
  return change->outcome;
}

Status Lifecycle::pause(PauseMode mode, RequestId before) {
  std::unique_lock lock(mutex_);
  DI_RETURN_IF_ERROR(check("pause", state_ == EngineState::kRunning, "while it runs"));
  return make(lock, {.call = "pause", .then = EngineState::kPaused, .mode = mode, .before = before});
}

Status Lifecycle::resume() {
  std::unique_lock lock(mutex_);
  DI_RETURN_IF_ERROR(check("resume", state_ == EngineState::kPaused, "after pause()"));
  return make(lock, {.call = "resume", .then = EngineState::kRunning});
}

Status Lifecycle::sleep(PauseMode mode, RequestId before, Work work) {
  std::unique_lock lock(mutex_);
  DI_RETURN_IF_ERROR(check("sleep", state_ != EngineState::kAsleep, "while it is awake"));
  return make(lock,
              {.call = "sleep", .then = EngineState::kAsleep, .mode = mode, .before = before, .work = std::move(work)});
}

Status Lifecycle::wake_up() {
  std::unique_lock lock(mutex_);
  DI_RETURN_IF_ERROR(check("wake_up", state_ == EngineState::kAsleep, "after sleep()"));
  return make(lock, {.call = "wake_up", .then = before_sleep_});
}

Status Lifecycle::work(std::string_view call, PauseMode mode, RequestId before, Work work) {
  std::unique_lock lock(mutex_);
  DI_RETURN_IF_ERROR(check(call, true, ""));
  return make(lock, {.call = call, .then = state_, .mode = mode, .before = before, .work = std::move(work)});
}

EngineState Lifecycle::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool Lifecycle::resting() const {
  const std::lock_guard lock(mutex_);
  return state_ != EngineState::kRunning && !change_ && closed_.ok();
}

void Lifecycle::close(Status why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (closed_.ok()) closed_ = std::move(why);
  }
  done_.notify_all();
}

bool Lifecycle::plans() const {
  const std::lock_guard lock(mutex_);
  if (change_ && !change_->made) return drains();
  return state_ == EngineState::kRunning;
}

bool Lifecycle::holds(RequestId id) const {
  const std::lock_guard lock(mutex_);
  if (change_ && !change_->made) return !drains() || id >= change_->before;
  return state_ != EngineState::kRunning;
}

std::optional<Lifecycle::Due> Lifecycle::due() const {
  const std::lock_guard lock(mutex_);
  if (!change_ || change_->made) return std::nullopt;
  return Due{change_->call, change_->mode == PauseMode::kDrain, state_ != EngineState::kRunning, change_->work};
}

void Lifecycle::made(Status outcome) {
  const std::lock_guard lock(mutex_);
  DI_CHECK(change_ && !change_->made, "a change is made once");
  if (outcome.ok()) {
    if (change_->then == EngineState::kAsleep && state_ != EngineState::kAsleep) before_sleep_ = state_;
    state_ = change_->then;
  }
  change_->outcome = std::move(outcome);
  change_->made = true;
}

void Lifecycle::delivered() {
  {
    const std::lock_guard lock(mutex_);
    DI_CHECK(change_ && change_->made, "a change is made before it is delivered");
    // Where the engine closed meanwhile, whoever waits is told that, however soon it wakes.
    change_->done = closed_.ok();
    change_.reset();
  }
  done_.notify_all();
}

}  // namespace deepinfer
