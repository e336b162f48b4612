// ThreadPool: fork-join parallelism of one step's operations.  Owned by a backend; called from one thread at a time.
// No locks and no allocation in parallel_for; idle workers spin for a while, then sleep.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/function_ref.h"

namespace deepinfer {

struct ThreadPoolOptions {
  int threads = 0;             // the calling thread included; 0: one per physical core this process may use
  bool pin = true;             // bind each worker to a core of the caller's mask, where the threads take every core
  int spin_microseconds = -1;  // how long an idle thread spins before it sleeps; -1: longer than the pauses between the
                               // operations of a step where each thread has a core, shortly where threads share cores
};

class ThreadPool {
 public:
  // Where the system refuses a thread, the pool has those it got; see threads().
  explicit ThreadPool(const ThreadPoolOptions& options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Binds the calling thread to the core that the workers leave to it; nothing where they are not bound.  For a caller
  // that does nothing else: one that is driven off its core for a moment would go on beside a worker.
  void bind_caller() const;

  // Calls body(task, thread) for every task in [0, tasks), each exactly once, and returns when all are done.
  // thread is in [0, threads()).  Consecutive tasks begin with one thread, the same one in every call with as many
  // tasks; threads that are done early take over tasks of others, so a result must not depend on the thread.  Fewer
  // tasks than threads leave the other threads alone.  body must not throw and must not call parallel_for.
  void parallel_for(int64_t tasks, FunctionRef<void(int64_t task, int thread)> body);

  // Calls body(thread) once on every thread, all at a time.  For start-up: memory that a thread will use is placed on
  // its node by being written there first.
  void on_each_thread(FunctionRef<void(int thread)> body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer
