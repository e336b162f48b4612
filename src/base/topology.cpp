#include "base/topology.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

namespace deepinfer {
namespace {

// First 64 KB of a small kernel file; empty if unreadable.
std::string read_small_file(const std::string& path) {
  std::string text;
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    text.resize(1 << 16);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
  }
  return text;
}

// The first core-sharing CPU of the allowed set names the core.
int first_allowed_sibling(int cpu, const std::set<int>& allowed, const std::string& root) {
  const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
  std::string text = read_small_file(folder + "core_cpus_list");
  if (text.empty()) text = read_small_file(folder + "thread_siblings_list");
  for (int sibling : parse_cpu_list(text)) {
    if (allowed.count(sibling) != 0) return std::min(sibling, cpu);
  }
  return cpu;
}

// quota / period in CPUs, or 0 where the text sets no limit.
double quota_of(const std::string& quota, const std::string& period) {
  const double q = std::atof(quota.c_str()), p = std::atof(period.c_str());
  return q > 0 && p > 0 ? q / p : 0;
}

// The limit of one cgroup folder.
double folder_quota(const std::string& folder) {
  std::istringstream v2(read_small_file(folder + "/cpu.max"));  // "max 100000" or "150000 100000"
  std::string quota, period;
  if (v2 >> quota >> period) return quota_of(quota, period);
  return quota_of(read_small_file(folder + "/cpu.cfs_quota_us"), read_small_file(folder + "/cpu.cfs_period_us"));
}

// The tightest limit from the process's own cgroup up to the mount's root.
double read_quota(const std::string& root) {
  double tightest = 0;
  std::istringstream lines(read_small_file(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v1_cpu = ("," + controllers + ",").find(",cpu,") != std::string::npos;
    if (!controllers.empty() && !v1_cpu) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      const double quota = folder_quota(mount + path);
      if (quota > 0 && (tightest == 0 || quota < tightest)) tightest = quota;
      if (path.find('/') == std::string::npos) break;
    }
  }
  return tightest;
}

std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20;
       capacity *= 2) {  // machines beyond 1,024 CPUs need a larger set
    cpu_set_t* set = CPU_ALLOC(capacity);
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; ok && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (ok) break;
  }
  return cpus;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  const char* p = text.c_str();
  while (std::isdigit(static_cast<unsigned char>(*p)) != 0) {
    char* end = nullptr;
    const long first = std::strtol(p, &end, 10);
    long last = first;
    if (*end == '-' && std::isdigit(static_cast<unsigned char>(end[1])) != 0) last = std::strtol(end + 1, &end, 10);
    if (first > 1 << 20 || last > 1 << 20) break;
    for (long cpu = first; cpu <= last; ++cpu) cpus.push_back(static_cast<int>(cpu));
    if (*end != ',') break;
    p = end + 1;
  }
  return cpus;
}

int CpuTopology::usable_threads() const {
  const int count = static_cast<int>(cores.size());
  if (quota <= 0 || quota >= count) return std::max(count, 1);
  return std::max(static_cast<int>(quota), 1);
}

bool CpuTopology::one_thread_per_core(int threads) const {
  const auto count = static_cast<int>(cores.size());
  return threads == count && (quota <= 0 || quota >= count);
}

CpuTopology read_topology(const std::vector<int>& allowed, const std::string& root) {
  CpuTopology topology;
  const std::set<int> allowed_set(allowed.begin(), allowed.end());
  std::set<int> cores;
  for (int cpu : allowed_set) cores.insert(first_allowed_sibling(cpu, allowed_set, root));
  for (int node : parse_cpu_list(read_small_file(root + "/sys/devices/system/node/online"))) {
    const std::string folder = root + "/sys/devices/system/node/node" + std::to_string(node);
    for (int cpu : parse_cpu_list(read_small_file(folder + "/cpulist"))) {
      if (cores.erase(cpu) != 0) topology.cores.push_back({cpu, node});
    }
  }
  for (int cpu : cores) topology.cores.push_back({cpu, 0});
  if (topology.cores.empty()) topology.cores.push_back({0, 0});
  topology.quota = read_quota(root);
  return topology;
}

CpuTopology read_topology() {
  return read_topology(affinity_cpus(), "");
}

}  // namespace deepinfer
