#include "serve/termination_signals.h"

#include <cerrno>

namespace deepinfer::cli {

TerminationSignals::TerminationSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

TerminationSignals::~TerminationSignals() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> TerminationSignals::take(std::chrono::milliseconds wait) const {
  timespec time{};
  time.tv_sec = static_cast<time_t>(wait.count() / 1000);
  time.tv_nsec = static_cast<long>(wait.count() % 1000) * 1'000'000;
  for (;;) {
    const int signal = sigtimedwait(&signals_, nullptr, &time);
    if (signal > 0) return signal;
    if (errno != EINTR) return std::nullopt;
  }
}

}  // namespace deepinfer::cli
