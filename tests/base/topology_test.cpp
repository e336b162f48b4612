#include "base/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace deepinfer {
namespace {

// A made-up /sys and /proc below a temporary folder.
class Topology : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/topology_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  // Two nodes of two cores with two threads each: core c has the CPUs c and c + 4.
  void write_machine() {
    for (int cpu = 0; cpu < 8; ++cpu) {
      write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list",
            std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n");
    }
    write("/sys/devices/system/node/online", "0-1\n");
    write("/sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
    write("/sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
  }
  std::vector<std::pair<int, int>> cores(const std::vector<int>& allowed) {
    std::vector<std::pair<int, int>> list;
    for (const CpuCore& core : read_topology(allowed, root_).cores) list.emplace_back(core.cpu, core.node);
    return list;
  }
  std::string root_;
};

using Cores = std::vector<std::pair<int, int>>;

TEST_F(Topology, OneEntryPerPhysicalCore) {
  write_machine();
  EXPECT_EQ(cores({0, 1, 2, 3, 4, 5, 6, 7}), (Cores{{0, 0}, {1, 0}, {2, 1}, {3, 1}}));
}

// Machines that number CPUs across nodes: workers fill one node before the next.  Nodes without CPUs hold memory only.
TEST_F(Topology, CoresComeNodeByNode) {
  for (int cpu = 0; cpu < 8; ++cpu) {
    write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list", std::to_string(cpu) + "\n");
  }
  write("/sys/devices/system/node/online", "0-2,4\n");
  write("/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
  write("/sys/devices/system/node/node1/cpulist", "\n");
  write("/sys/devices/system/node/node4/cpulist", "1,3,5,7\n");
  EXPECT_EQ(cores({0, 1, 2, 3, 4, 5, 6, 7}), (Cores{{0, 0}, {2, 0}, {4, 0}, {6, 0}, {1, 4}, {3, 4}, {5, 4}, {7, 4}}));
  EXPECT_EQ(cores({7, 3, 4}), (Cores{{4, 0}, {3, 4}, {7, 4}}));
}

TEST_F(Topology, RespectsTheAffinityMask) {
  write_machine();
  EXPECT_EQ(cores({5, 2, 6}), (Cores{{5, 0}, {2, 1}}));
}

TEST_F(Topology, NothingReadable) {
  EXPECT_EQ(cores({3, 1}), (Cores{{1, 0}, {3, 0}}));
}

TEST_F(Topology, TightestCgroupQuotaOfThePathCounts) {
  write_machine();
  write("/proc/self/cgroup", "0::/user/box\n");
  write("/sys/fs/cgroup/user/box/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/user/cpu.max", "250000 100000\n");
  write("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  const CpuTopology topology = read_topology({0, 1, 2, 3, 4, 5, 6, 7}, root_);
  EXPECT_EQ(topology.quota, 2.5);
  EXPECT_EQ(topology.usable_threads(), 2);
}

TEST_F(Topology, CgroupV1Quota) {
  write_machine();
  write("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/x\n");
  write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  const CpuTopology topology = read_topology({0, 1}, root_);
  EXPECT_EQ(topology.quota, 0.5);
  EXPECT_EQ(topology.usable_threads(), 1);
}

TEST_F(Topology, WithoutQuotaEveryCoreCounts) {
  write_machine();
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(read_topology({0, 1, 2, 3, 4, 5, 6, 7}, root_).usable_threads(), 4);
}

TEST_F(Topology, ThreadsAreBoundWhereTheyTakeEveryCore) {
  write_machine();
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  CpuTopology topology = read_topology({0, 1, 2, 3, 4, 5, 6, 7}, root_);
  EXPECT_TRUE(topology.one_thread_per_core(4));
  EXPECT_FALSE(topology.one_thread_per_core(3));
  EXPECT_FALSE(topology.one_thread_per_core(5));
  // A container with a quota shares its cores with others that start at the same one.
  topology.quota = 3;
  EXPECT_FALSE(topology.one_thread_per_core(topology.usable_threads()));
  EXPECT_FALSE(topology.one_thread_per_core(4));
}

TEST(CpuList, KernelFormat) {
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>{});
  EXPECT_EQ(parse_cpu_list("5"), std::vector<int>{5});
  EXPECT_EQ(parse_cpu_list("1,x"), std::vector<int>{1});
  EXPECT_EQ(parse_cpu_list("0-99999999999"), std::vector<int>{});
}

TEST(ThisMachine, HasACore) {
  EXPECT_GE(read_topology().cores.size(), 1u);
  EXPECT_GE(read_topology().usable_threads(), 1);
}

}  // namespace
}  // namespace deepinfer
