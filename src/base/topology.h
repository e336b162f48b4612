// CpuTopology: the physical cores this process may run on.  Read once by ThreadPool and by the benchmarks.
#pragma once

#include <string>
#include <vector>

namespace deepinfer {

struct CpuCore {
  int cpu = 0;   // the core's first logical CPU of the affinity mask: where a worker is pinned
  int node = 0;  // NUMA node
};

struct CpuTopology {
  std::vector<CpuCore> cores;  // one per physical core, node by node, CPUs ascending; never empty
  double quota = 0;            // CPUs granted by the tightest cgroup limit (v2 cpu.max, v1 cfs quota); 0: none

  // Threads that can run at once: one per core, no more than the quota's whole CPUs, at least 1.
  int usable_threads() const;
  // Whether this many threads may be bound to a core each: only where they take every core, and no quota shares the
  // machine out.  Processes with fewer threads would all choose the same cores and leave the others idle.
  bool one_thread_per_core(int threads) const;
};

// allowed: logical CPUs of the calling thread's affinity mask.  root: prefix of /sys and /proc, "" but in tests.
// Whatever is unreadable counts as absent: every allowed CPU is then a core of node 0 without quota.
CpuTopology read_topology(const std::vector<int>& allowed, const std::string& root);
CpuTopology read_topology();

// "0-3,8" as {0, 1, 2, 3, 8}, the kernel's list format; text that breaks the format ends the list.
std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace deepinfer
