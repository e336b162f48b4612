#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/check.h"
#include "exit_code.h"

namespace deepinfer::cli {
namespace {

std::atomic<StopFunction> active_stop{nullptr};
std::atomic<void*> active_target{nullptr};
std::atomic<bool> was_interrupted{false};
static_assert(std::atomic<StopFunction>::is_always_lock_free && std::atomic<void*>::is_always_lock_free);

void on_interrupt(int) {
  const StopFunction stop = active_stop.load();
  if (stop == nullptr || was_interrupted.exchange(true)) _exit(static_cast<int>(ExitCode::kInterrupted));
  const int saved_errno = errno;
  stop(active_target.load());
  errno = saved_errno;
}

}  // namespace

InterruptScope::InterruptScope(StopFunction stop, void* target) {
  DI_CHECK(active_stop.load() == nullptr, "one InterruptScope at a time");
  was_interrupted.store(false);
  active_target.store(target);
  active_stop.store(stop);
}

InterruptScope::~InterruptScope() {
  active_stop.store(nullptr);
}

bool InterruptScope::interrupted() const {
  return was_interrupted.load();
}

void handle_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // a read of the line editor must return
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace deepinfer::cli
