#include "machine_memory.h"

#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

TEST(MachineMemory, TakesTheContainersLimit) {
  const uint64_t machine = machine_memory_bytes("/no/such/root");
  EXPECT_GT(machine, 100'000'000u);
  const TemporaryFolder folder;
  folder.write("sys/fs/cgroup/memory.max", "50000000\n");
  EXPECT_EQ(machine_memory_bytes(folder.path().string()), 50'000'000u);
  folder.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(machine_memory_bytes(folder.path().string()), machine);
  folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "60000000\n");
  EXPECT_EQ(machine_memory_bytes(folder.path().string()), 60'000'000u);
  folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(machine_memory_bytes(folder.path().string()), machine);
}

}  // namespace
}  // namespace deepinfer::cli
