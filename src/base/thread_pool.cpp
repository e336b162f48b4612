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

void futex_wake(std::atomic<uint32_t>& word) {
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

// A step: the caller gives each participant a range of tasks.  Its owner takes tasks from the front, threads without
// work take them from the back.  Who shortens a range owns the task: body and the count of unfinished tasks are touched
// by owners of unfinished tasks only, during which the caller cannot replace them.  So a worker that comes late to a
// step either takes a task of the current one or none, whatever it saw before.
struct ThreadPool::State {
  // Tasks [begin, end) of one thread, both in one word.
  struct Range {
    uint32_t begin, end;
    bool empty() const { return begin == end; }
    uint64_t word() const { return uint64_t{end} << 32 | begin; }
    static Range of(uint64_t word) { return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)}; }
  };
  // What one thread waits for: a cache line of its own.
  struct alignas(64) Member {
    std::atomic<uint64_t> range{0};
    std::atomic<uint32_t> sleeps{0};  // futex of a worker
  };

  alignas(64) std::atomic<uint32_t> unfinished{0};  // futex of the caller
  std::atomic<bool> caller_sleeps{false};
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  std::atomic<const Body*> body{nullptr};
  std::atomic<int> threads{1};  // that have started
  std::vector<Member> members;

  std::chrono::microseconds spin_time{0};
  int caller_cpu = -1;  // -1: nobody is bound
  std::vector<std::thread> workers;

  explicit State(int count) : members(static_cast<size_t>(count)) {}

  // Takes a task of a member's range: the first one for its owner, the last one for others.
  bool take(Member& member, bool owner, uint32_t& task) {
    uint64_t word = member.range.load(std::memory_order_acquire);
    while (true) {
      Range range = Range::of(word);
      if (range.empty()) return false;
      task = owner ? range.begin++ : --range.end;
      if (member.range.compare_exchange_weak(word, range.word(), std::memory_order_acq_rel, std::memory_order_acquire))
        return true;
    }
  }

  void drain_range(Member& member, int thread, bool owner) {
    uint32_t finished = 0;
    for (uint32_t task; take(member, owner, task); ++finished) (*body.load(std::memory_order_relaxed))(task, thread);
    if (finished == 0) return;
    // seq_cst pairs with the caller's store of caller_sleeps: one of the two sees the other.
    if (unfinished.fetch_sub(finished, std::memory_order_seq_cst) == finished &&
        caller_sleeps.load(std::memory_order_seq_cst)) {
      futex_wake(unfinished);
    }
  }

  // Runs the thread's own tasks, then those that others have not come to; neighbours first, they share a node.
  void drain(int thread) {
    drain_range(members[static_cast<size_t>(thread)], thread, true);
    const int count = threads.load(std::memory_order_relaxed);
    for (int i = 1; i < count; ++i) {
      drain_range(members[static_cast<size_t>((thread + i) % count)], thread, false);
    }
  }

  void work(int thread, int cpu) {
    if (cpu >= 0) pin_to(cpu);
    Member& own = members[static_cast<size_t>(thread)];
    while (true) {
      const auto ready = [&] {
        return !Range::of(own.range.load(std::memory_order_relaxed)).empty() || stop.load(std::memory_order_relaxed);
      };
      if (!spin(spin_time, ready)) {
        own.sleeps.store(1, std::memory_order_relaxed);
        // Of this and the caller's exchange in wake() the later one sees what the other side wrote before its own.
        sleepers.fetch_add(1, std::memory_order_acq_rel);
        while (!ready() && own.sleeps.load(std::memory_order_acquire) != 0) futex_wait(own.sleeps, 1);
        own.sleeps.store(0, std::memory_order_relaxed);
        sleepers.fetch_sub(1, std::memory_order_relaxed);
      }
      if (stop.load(std::memory_order_acquire)) return;
      drain(thread);
    }
  }

  // Wakes those of the threads [1, count) that sleep; they have been given what they are to see.
  void wake(int count) {
    if (sleepers.fetch_add(0, std::memory_order_acq_rel) == 0) return;
    for (int thread = 1; thread < count; ++thread) {
      Member& member = members[static_cast<size_t>(thread)];
      if (member.sleeps.exchange(0, std::memory_order_acq_rel) != 0) futex_wake(member.sleeps);
    }
  }

  void run(uint32_t count, const Body& task_body) {
    body.store(&task_body, std::memory_order_relaxed);
    unfinished.store(count, std::memory_order_relaxed);
    const auto participants = static_cast<uint32_t>(std::min<uint64_t>(workers.size() + 1, count));
    const uint32_t share = count / participants, more = count % participants;  // the first `more` threads get one more
    for (uint32_t thread = participants; thread-- > 0;) {
      const uint32_t begin = thread * share + std::min(thread, more);
      const Range range{begin, begin + share + (thread < more ? 1 : 0)};
      members[thread].range.store(range.word(), std::memory_order_release);
    }
    wake(static_cast<int>(participants));
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

ThreadPool::ThreadPool(const ThreadPoolOptions& options) {
  constexpr int kOwnCoreSpin = 300, kSharedCoreSpin = 20;  // microseconds
  const CpuTopology topology = read_topology();
  const int threads = options.threads > 0 ? options.threads : topology.usable_threads();
  state_ = std::make_unique<State>(threads);
  // The caller keeps its own mask; workers take the cores behind the first.
  const bool pin = options.pin && topology.one_thread_per_core(threads);
  const int spin = threads <= topology.usable_threads() ? kOwnCoreSpin : kSharedCoreSpin;
  state_->spin_time = std::chrono::microseconds(options.spin_microseconds >= 0 ? options.spin_microseconds : spin);
  if (pin) state_->caller_cpu = topology.cores[0].cpu;
  state_->workers.reserve(threads - 1);
  for (int thread = 1; thread < threads; ++thread) {
    const int cpu = pin ? topology.cores[thread].cpu : -1;
    try {
      state_->workers.emplace_back([state = state_.get(), thread, cpu] { state->work(thread, cpu); });
    } catch (const std::system_error&) {  // a limit on threads or memory
      break;
    }
  }
  state_->threads.store(static_cast<int>(state_->workers.size()) + 1, std::memory_order_relaxed);
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_seq_cst);
  state_->wake(threads());
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::bind_caller() const {
  if (state_->caller_cpu >= 0) pin_to(state_->caller_cpu);
}

void ThreadPool::on_each_thread(FunctionRef<void(int thread)> body) {
  std::atomic<int> arrived{0};
  parallel_for(threads(), [&](int64_t, int thread) {
    // Who waits here takes no second task.
    arrived.fetch_add(1, std::memory_order_relaxed);
    while (arrived.load(std::memory_order_relaxed) < threads()) std::this_thread::yield();
    body(thread);
  });
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
