#include "base/available_memory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tensor/temporary_folder.h"

namespace deepinfer {
namespace {

TEST(AvailableMemory, IsTheSmallerOfMachineAndContainer) {
  EXPECT_FALSE(available_memory("/no/such/root"));
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    folder.write(name, text);
  };
  const std::string root = folder.path();
  write("proc/meminfo", "MemTotal:       2000 kB\nMemFree: 10 kB\nMemAvailable:    1000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(available_memory(root), 1'024'000u);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "700000\n");
  EXPECT_EQ(available_memory(root), 1'024'000u);
  write("sys/fs/cgroup/memory.max", "900000\n");
  EXPECT_EQ(available_memory(root), 200'000u);
  // Pages of files are given back.
  write("sys/fs/cgroup/memory.stat", "anon 300000\ninactive_file 250000\nactive_file 150000\n");
  EXPECT_EQ(available_memory(root), 600'000u);
  write("sys/fs/cgroup/memory.max", "100000\n");
  EXPECT_EQ(available_memory(root), 0u);
}

TEST(AvailableMemory, OfThisMachine) {
  const auto bytes = available_memory();
  if (!bytes) GTEST_SKIP() << "the system does not say";
  EXPECT_GT(*bytes, 1'000'000u);
}

}  // namespace
}  // namespace deepinfer
