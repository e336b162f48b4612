// Ctrl-C.  While an InterruptScope lives, SIGINT asks its target to stop and the process goes on; a second SIGINT of
// the same scope, or one when there is no scope, ends the process at once with exit code 130.
#pragma once

namespace deepinfer::cli {

// Called from the signal handler: must be async-signal-safe.
using StopFunction = void (*)(void* target);

class InterruptScope {
 public:
  InterruptScope(StopFunction stop, void* target);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Whether SIGINT arrived since the scope began.
  bool interrupted() const;
};

// Installs the handler: called once at start.
void handle_interrupts();

}  // namespace deepinfer::cli
