// SIGTERM and SIGINT of a server: waited for by one thread instead of handled.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace deepinfer::cli {

class TerminationSignals {
 public:
  // From now on these signals wait for take(), also those of threads that are made later.  Before any such thread.
  TerminationSignals();
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // The next one, or none within the time.
  std::optional<int> take(std::chrono::milliseconds wait) const;

 private:
  sigset_t signals_, before_;
};

}  // namespace deepinfer::cli
