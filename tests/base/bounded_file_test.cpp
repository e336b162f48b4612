// Small files are read whole or not at all, and never one that is larger than was planned for.
#include "base/bounded_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tensor/temporary_folder.h"

namespace deepinfer {
namespace {

// A file of zeros that takes no room on disk.
std::string sparse_file(const TemporaryFolder& folder, const std::string& name, uint64_t bytes) {
  const std::string path = folder.write(name, "");
  std::filesystem::resize_file(path, bytes);
  return path;
}

TEST(BoundedFile, IsReadByteForByte) {
  const TemporaryFolder folder;
  const std::string content = std::string("{\"a\": 1}\r\n\0\xFF", 12) + std::string(100000, 'x');
  const std::string path = folder.write("a.json", content);
  EXPECT_EQ(read_bounded_file(path, content.size()).value(), content);
  EXPECT_EQ(read_bounded_file(folder.write("empty", ""), 0).value(), "");
  std::filesystem::create_symlink(path, folder / "link");
  EXPECT_EQ(read_bounded_file(folder / "link", 1 << 20).value(), content);
}

TEST(BoundedFile, LargerThanAllowedIsNamedWithBothSizes) {
  const TemporaryFolder folder;
  const std::string small = folder.write("small", "12345");
  EXPECT_EQ(read_bounded_file(small, 4).status().message(), small + ": has 5 bytes; allowed: at most 4");
  // Far more than any memory: nothing may be allocated for it.
  const std::string huge = sparse_file(folder, "huge", uint64_t{1} << 42);
  const Status status = read_bounded_file(huge, kMaxTokenizerFileBytes).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruptFile);
  EXPECT_EQ(status.message(), huge + ": has 4398046511104 bytes; allowed: at most 268435456");
}

TEST(BoundedFile, WhatIsNoFileIsRefusedWithoutWaiting) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder.path(), folder / "pipe", std::string("/dev/zero")}) {
    const Status status = read_bounded_file(path, 100).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(status.message(), path + ": not a regular file");
  }
  for (const std::string& path : {folder / "none", folder.write("file", "x") + "/below"}) {
    const Status status = read_bounded_file(path, 100).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << path;
    EXPECT_EQ(status.message(), path + ": no such file");
  }
}

}  // namespace
}  // namespace deepinfer
