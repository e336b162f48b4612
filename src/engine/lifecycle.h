// Lifecycle: whether an engine runs, rests or sleeps, and the change from one to another that is under way.  A caller
// asks for a change and waits; the planner thread makes it when no step is in flight; the output thread says when all
// that came before has been delivered.  Owned by ThreadedEngine; the engine's own lock may be held around every call
// but those of callers.
//
//   running ──pause──► paused ──resume──► running        sleep: running or paused ──► asleep
//   work: in all three, back to the same                  wake_up: back to where sleep() was called
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "engine/engine.h"

namespace deepinfer {

class Lifecycle {
 public:
  // What the planner does between the steps, when none is in flight.
  using Work = std::function<Status()>;

  // wake: makes the planner look for a change.
  explicit Lifecycle(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Callers.  Each waits until the change has been made and what came before it is delivered.  kInvalidArgument for a
  // wrong order, naming the state; what close() says when the engine closes meanwhile; else what the work says, which
  // then has changed nothing.  before: with kDrain requests with lower ids go on.
  Status pause(PauseMode mode, RequestId before);
  Status resume();
  Status sleep(PauseMode mode, RequestId before, Work work);
  Status wake_up();
  // Work that leaves the state as it is; call: its name in errors.
  Status work(std::string_view call, PauseMode mode, RequestId before, Work work);
  EngineState state() const;
  // Nothing will end before somebody calls resume() or wake_up().
  bool resting() const;
  // Ends all waits, and all later calls, with `why`.
  void close(Status why) noexcept;

  // The planner.
  bool plans() const;              // makes steps
  bool holds(RequestId id) const;  // a new request waits until the engine runs again
  struct Due {
    std::string_view call;
    bool drains = false;   // requests that were there have to end first
    bool resting = false;  // nothing would end: the engine does not run
    Work work;
  };
  std::optional<Due> due() const;  // a change has been asked for and is not made
  void made(Status outcome);
  // The output thread, after what came before made().
  void delivered();

 private:
  struct Change {
    std::string_view call;
    EngineState then = EngineState::kRunning;
    PauseMode mode = PauseMode::kKeep;
    RequestId before = 0;
    Work work = {};
    bool made = false, done = false;
    Status outcome = {};
  };
  // With mutex_ held.
  Status check(std::string_view call, bool allowed, std::string_view when) const;
  Status make(std::unique_lock<std::mutex>& lock, Change wanted);
  bool drains() const { return state_ == EngineState::kRunning && change_->mode == PauseMode::kDrain; }

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable done_;
  EngineState state_ = EngineState::kRunning;
  EngineState before_sleep_ = EngineState::kRunning;
  std::shared_ptr<Change> change_;  // asked for and not done
  Status closed_;                   // why; ok: it is open
};

}  // namespace deepinfer
