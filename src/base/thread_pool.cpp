#include "base/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <new>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/topology.h"

namespace deepinfer {
namespace {

using Clock = std::chrono::steady_clock;
using Body = FunctionRef<void(int64_t, int)>;

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Spins until done() or the time is over; returns done().  The clock is read rarely: reading it costs about 20 pauses.
template <typename Done>
bool spin(std::chrono::microseconds limit, Done done) {
  const Clock::time_point end = Clock::now() + limit;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      _mm_pause();
    }
  } while (Clock::now() < end);
  return done();
}

void pin_to(int cpu) {
  const int capacity = std::max(CPU_SETSIZE, cpu + 1);
  cpu_set_t* set = CPU_ALLOC(capacity);
  const size_t bytes = CPU_ALLOC_SIZE(capacity);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(cpu, bytes, set);
  pthread_setaffinity_np(pthread_self(), bytes, set);  // refused (a shrunk cpuset): the thread just floats
  CPU_FREE(set);
}

}  // namespace

// One step: the caller publishes `remaining` tasks in ticket; whoever lowers it by one owns the task of that rank.  The
// count lives in the ticket itself, so a worker that comes late to a step either takes a task of the current step or
// none: body and tasks are read only by the owner of an unfinished task, during which the caller cannot replace them.
struct ThreadPool::State {
  alignas(64) std::atomic<uint32_t> remaining{0};
  alignas(64) std::atomic<uint32_t> unfinished{0};  // futex of the caller
  std::atomic<bool> caller_sleeps{false};
  alignas(64) std::atomic<uint32_t> step{0};  // futex of the workers
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<const Body*> body{nullptr};
  std::atomic<uint32_t> tasks{0};

  std::chrono::microseconds spin_time{0};
  std::vector<std::thread> workers;

  // Runs tasks until none is left to take.
  void drain(int thread) {
    uint32_t finished = 0;
    uint32_t left = remaining.load(std::memory_order_acquire);
    while (left != 0) {
      if (!remaining.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      const uint32_t count = tasks.load(std::memory_order_relaxed);
      (*body.load(std::memory_order_relaxed))(count - left, thread);
      ++finished;
      left = remaining.load(std::memory_order_acquire);
    }
    if (finished == 0) return;
    // seq_cst pairs with the caller's store of caller_sleeps: one of the two sees the other.
    if (unfinished.fetch_sub(finished, std::memory_order_seq_cst) == finished &&
        caller_sleeps.load(std::memory_order_seq_cst)) {
      futex_wake_all(unfinished);
    }
  }

  void work(int thread, int cpu) {
    if (cpu >= 0) pin_to(cpu);
    while (true) {
      const bool ready = spin(spin_time, [&] {
        return remaining.load(std::memory_order_relaxed) != 0 || stop.load(std::memory_order_relaxed);
      });
      if (!ready) {
        const uint32_t seen = step.load(std::memory_order_seq_cst);
        sleepers.fetch_add(1, std::memory_order_seq_cst);
        if (remaining.load(std::memory_order_seq_cst) == 0 && !stop.load(std::memory_order_seq_cst)) {
          futex_wait(step, seen);
        }
        sleepers.fetch_sub(1, std::memory_order_seq_cst);
      }
      if (stop.load(std::memory_order_acquire)) return;
      drain(thread);
    }
  }

  void wake_workers() {
    step.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(step);
  }

  void run(uint32_t count, const Body& task_body) {
    body.store(&task_body, std::memory_order_relaxed);
    tasks.store(count, std::memory_order_relaxed);
    unfinished.store(count, std::memory_order_relaxed);
    remaining.store(count, std::memory_order_seq_cst);
    wake_workers();
    drain(0);
    const auto done = [&] { return unfinished.load(std::memory_order_acquire) == 0; };
    if (spin(spin_time, done)) return;
    caller_sleeps.store(true, std::memory_order_seq_cst);
    for (uint32_t left = unfinished.load(std::memory_order_seq_cst); left != 0;
         left = unfinished.load(std::memory_order_seq_cst)) {
      futex_wait(unfinished, left);
    }
    caller_sleeps.store(false, std::memory_order_relaxed);
  }
};

ThreadPool::ThreadPool(const ThreadPoolOptions& options) : state_(std::make_unique<State>()) {
  const CpuTopology topology = read_topology();
  const int threads = options.threads > 0 ? options.threads : topology.usable_threads();
  // The caller keeps its own mask; workers take the cores behind the first.
  const bool pin = options.pin && topology.one_thread_per_core(threads);
  state_->spin_time = std::chrono::microseconds(std::max(options.spin_microseconds, 0));
  state_->workers.reserve(threads - 1);
  for (int thread = 1; thread < threads; ++thread) {
    const int cpu = pin ? topology.cores[thread].cpu : -1;
    try {
      state_->workers.emplace_back([state = state_.get(), thread, cpu] { state->work(thread, cpu); });
    } catch (const std::system_error&) {  // a limit on threads or memory
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_seq_cst);
  state_->wake_workers();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::parallel_for(int64_t tasks, FunctionRef<void(int64_t task, int thread)> body) {
  DI_CHECK(tasks >= 0 && tasks < INT_MAX, "parallel_for takes fewer than 2^31 tasks");
  if (tasks == 0) return;
  if (tasks == 1 || state_->workers.empty()) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  state_->run(static_cast<uint32_t>(tasks), body);
}

}  // namespace deepinfer
