#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "base/topology.h"

namespace deepinfer {
namespace {

ThreadPoolOptions with_threads(int threads, int spin_microseconds = 50) {
  ThreadPoolOptions options;
  options.threads = threads;
  options.spin_microseconds = spin_microseconds;
  return options;
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(with_threads(threads));
    ASSERT_EQ(pool.threads(), threads);
    for (int64_t tasks : {0, 1, 2, 7, 64, 1000}) {
      std::vector<int> runs(tasks, 0);  // plain ints: a task that two threads run is a data race that TSan reports
      std::atomic<bool> thread_in_range{true};
      pool.parallel_for(tasks, [&](int64_t task, int thread) {
        ++runs[task];
        if (thread < 0 || thread >= threads) thread_in_range = false;
      });
      EXPECT_EQ(runs, std::vector<int>(tasks, 1)) << threads << " threads, " << tasks << " tasks";
      EXPECT_TRUE(thread_in_range);
    }
  }
}

// Many short steps back to back: late workers meet a step that is over or the next one.
TEST(ThreadPool, ShortStepsDoNotMix) {
  ThreadPool pool(with_threads(4, 5));
  std::vector<int64_t> cells(8, 0);
  for (int64_t step = 0; step < 20000; ++step) {
    const int64_t tasks = 1 + step % static_cast<int64_t>(cells.size());
    pool.parallel_for(tasks, [&, step](int64_t task, int) { cells[task] += step; });
    // The results of a step are visible to the caller, unguarded.
    cells[0] += 1;
  }
  int64_t expected = 0;
  for (int64_t step = 0; step < 20000; ++step) expected += step * (1 + step % 8) + 1;
  EXPECT_EQ(std::accumulate(cells.begin(), cells.end(), int64_t{0}), expected);
}

std::vector<int> cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

// Where workers are bound to cores, the caller can be bound to the one that is left; else it keeps its mask.
TEST(ThreadPool, ACallerIsBoundBesideItsWorkers) {
  const CpuTopology topology = read_topology();
  const auto cores = static_cast<int>(topology.cores.size());
  for (const int threads : {cores, cores + 1}) {
    ThreadPool pool(with_threads(threads));
    std::vector<std::vector<int>> cpus(static_cast<size_t>(threads));
    std::thread([&] {
      const std::vector<int> before = cpus_of_this_thread();
      pool.bind_caller();
      if (!topology.one_thread_per_core(threads)) {
        EXPECT_EQ(cpus_of_this_thread(), before);
        return;
      }
      pool.on_each_thread([&](int thread) { cpus[static_cast<size_t>(thread)] = cpus_of_this_thread(); });
      std::set<int> taken;
      for (const std::vector<int>& of_thread : cpus) {
        EXPECT_EQ(of_thread.size(), 1U);
        taken.insert(of_thread.begin(), of_thread.end());
      }
      EXPECT_EQ(std::ssize(taken), threads);
    }).join();
  }
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  for (int spin : {0, 1}) {
    ThreadPool pool(with_threads(3, spin));
    for (int step = 0; step < 50; ++step) {
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      std::atomic<int64_t> sum{0};
      pool.parallel_for(6, [&](int64_t task, int) { sum += task; });
      EXPECT_EQ(sum, 15);
    }
  }
}

// A step whose last task is slow: the caller has to sleep for it.
TEST(ThreadPool, CallerWaitsForTheLastTask) {
  ThreadPool pool(with_threads(2, 0));
  for (int step = 0; step < 20; ++step) {
    std::atomic<bool> worker_started{false};
    int done = 0;
    pool.parallel_for(2, [&](int64_t, int thread) {
      if (thread == 0) {
        while (!worker_started) std::this_thread::yield();
      } else {
        worker_started = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        done = 1;
      }
    });
    EXPECT_EQ(done, 1);
  }
}

// Tasks of a thread that is late or slow are done by the others.
TEST(ThreadPool, ThreadsTakeOverTasksOfASlowOne) {
  constexpr int64_t kTasks = 40;
  for (int threads : {2, 7}) {
    ThreadPool pool(with_threads(threads));
    std::vector<int> runs(kTasks, 0);
    std::atomic<int64_t> done{0};
    pool.parallel_for(kTasks, [&](int64_t task, int) {
      // Whoever gets the first task keeps it until all others are done, its own later ones too.
      while (task == 0 && done != kTasks - 1) std::this_thread::yield();
      ++runs[task];
      ++done;
    });
    EXPECT_EQ(runs, std::vector<int>(kTasks, 1)) << threads;
  }
}

// Fewer tasks than threads: only as many threads take part, or those that are still awake for them.
TEST(ThreadPool, FewTasksBesideManyThreads) {
  ThreadPool pool(with_threads(16, 0));
  for (int step = 0; step < 300; ++step) {
    const int64_t tasks = 2 + step % 17;
    std::atomic<int64_t> sum{0};
    pool.parallel_for(tasks, [&](int64_t task, int) { sum += task; });
    EXPECT_EQ(sum, tasks * (tasks - 1) / 2);
  }
}

TEST(ThreadPool, EachThreadRunsOnce) {
  for (int threads : {1, 2, 9}) {
    ThreadPool pool(with_threads(threads));
    std::vector<std::thread::id> ids(threads);
    pool.on_each_thread([&](int thread) { ids[thread] = std::this_thread::get_id(); });
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    for (int i = 0; i < threads; ++i) {
      for (int j = 0; j < i; ++j) EXPECT_NE(ids[i], ids[j]);
    }
  }
}

TEST(ThreadPool, DefaultIsAtLeastOneThread) {
  ThreadPool pool;
  EXPECT_GE(pool.threads(), 1);
}

TEST(ThreadPool, PoolsStartAndStopQuickly) {
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(with_threads(1 + i % 4));
    int ran = 0;
    if (i % 2 == 0) pool.parallel_for(1, [&](int64_t, int) { ++ran; });
    EXPECT_EQ(ran, i % 2 == 0 ? 1 : 0);
  }
}

#if !defined(DEEPINFER_SANITIZED)  // sanitizers need the address space themselves
// Room for the stacks of a few threads only, as under a limit of a container.
[[noreturn]] void run_with_little_room() {
  const rlimit limit{uint64_t{512} << 20, uint64_t{512} << 20};
  setrlimit(RLIMIT_AS, &limit);
  ThreadPool pool(with_threads(1024));
  std::vector<int> runs(1000, 0);
  pool.parallel_for(1000, [&](int64_t task, int) { ++runs[task]; });
  std::_Exit(pool.threads() < 1024 && runs == std::vector<int>(1000, 1) ? 0 : 1);
}

TEST(ThreadPoolDeathTest, RunsWithTheThreadsThatTheSystemGives) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_with_little_room(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace deepinfer
