// WorkBudget: bounds what the matching library does on this thread.  The library counts its work
// (third_party/README.md, change 1); where a bound is passed it is left by the exception WorkStopped, which src/grammar
// catches.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>

#include "base/status.h"

namespace deepinfer {

struct WorkLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  int64_t bytes = INT64_MAX;                     // that stay allocated: rules, automata, masks
  const std::atomic<bool>* cancelled = nullptr;  // looked at together with the clock
};

class WorkStopped : public std::exception {
 public:
  enum class Reason { kTime, kBytes, kCancelled };
  explicit WorkStopped(Reason reason) : reason_(reason) {}
  Reason reason() const { return reason_; }
  const char* what() const noexcept override { return "work budget exhausted"; }

 private:
  Reason reason_;
};

// In force from construction to destruction, on the constructing thread; not nested.
class WorkBudget {
 public:
  explicit WorkBudget(const WorkLimits& limits);
  ~WorkBudget();
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

  // Bytes of this thread's budget that the work has kept so far.
  static int64_t kept_bytes();
  // Throws WorkStopped when time is over or the work is cancelled.
  static void check();
};

}  // namespace deepinfer
