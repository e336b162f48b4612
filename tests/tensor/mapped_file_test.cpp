// Mapped files: what may be opened, what happens when the file changes under the map, and the order of unmapping.
#include "tensor/mapped_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "temporary_folder.h"

namespace deepinfer {
namespace {

constexpr uint64_t kPage = 4096;

TEST(MappedFile, MapsAndCopies) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", "0123456789");
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(std::memcmp(file->data(), "0123456789", 10), 0);
  std::vector<std::byte> part(4);
  ASSERT_TRUE(file->copy(3, part).ok());
  EXPECT_EQ(std::memcmp(part.data(), "3456", 4), 0);
  EXPECT_TRUE(file->copy(6, part).ok());
  for (const uint64_t offset : {uint64_t{7}, uint64_t{10}, uint64_t{11}, ~uint64_t{0}}) {
    EXPECT_EQ(file->copy(offset, part).code(), StatusCode::kCorruptFile) << offset;
  }
  file->prefetch();
  file->prefetch(9, ~uint64_t{0});  // clipped
  file->prefetch(10, 1);
  file->expect_random(~uint64_t{0}, ~uint64_t{0});
}

TEST(MappedFile, EmptyFile) {
  const TemporaryFolder folder;
  const Result<MappedFile> file = MappedFile::open(folder.write("x", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), 0u);
  EXPECT_EQ(file->data(), nullptr);
  EXPECT_TRUE(file->copy(0, {}).ok());
  file->prefetch();
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(MappedFile::open(folder / "none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::open(folder.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::open("/dev/zero").status().code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(folder / "pipe").status().code(), StatusCode::kInvalidArgument);  // and does not wait
}

TEST(MappedFile, MovesAndReleases) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", "abc");
  MappedFile a = MappedFile::open(path).value();
  const std::byte* data = a.data();
  MappedFile b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);
  b = MappedFile::open(path).value();
  EXPECT_EQ(static_cast<char>(b.data()[2]), 'c');
  // Far more maps, one after the other, than the table has entries: entries and descriptors are given back.
  for (int i = 0; i < 3 * kMaxMappedFiles; ++i) ASSERT_TRUE(MappedFile::open(path).ok()) << i;
}

TEST(MappedFile, ShrunkFileIsAnErrorOfCopy) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", std::string(3 * kPage, 'x'));
  const Result<MappedFile> file = MappedFile::open(path);
  std::filesystem::resize_file(path, kPage);
  std::vector<std::byte> all(3 * kPage);
  const Status status = file->copy(0, all);
  EXPECT_EQ(status.code(), StatusCode::kCorruptFile);
  EXPECT_EQ(status.message(), path + ": ends at offset 4096, had 12288 bytes when it was opened");
}

// Reads one byte where no compiler can leave it out.
void touch(const std::byte* address) {
  static_cast<void>(*static_cast<const volatile std::byte*>(address));
}

// A death test runs the test again in a child that never returns: it uses the folder of its parent, who removes it.
class MappedFileDeathTest : public testing::Test {
 protected:
  MappedFileDeathTest() {
    testing::FLAGS_gtest_death_test_style = "threadsafe";  // the child starts without our handler
    if (const char* parents = std::getenv(kVariable)) {
      path_ = parents;
    } else {
      own_.emplace();
      path_ = own_->path();
      setenv(kVariable, path_.c_str(), 1);
    }
  }
  ~MappedFileDeathTest() override {
    if (own_.has_value()) unsetenv(kVariable);
  }
  std::string write(const std::string& name, size_t bytes) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
    return path;
  }

  std::string path_;

 private:
  static constexpr char kVariable[] = "DEEPINFER_DEATH_TEST_FOLDER";
  std::optional<TemporaryFolder> own_;
};

TEST_F(MappedFileDeathTest, ShrunkFileEndsTheProcessWithItsName) {
  const std::string path = write("weights.safetensors", 3 * kPage);
  EXPECT_EXIT(
      {
        const Result<MappedFile> other = MappedFile::open(write("other", kPage));
        const Result<MappedFile> file = MappedFile::open(path);
        std::filesystem::resize_file(path, kPage);
        touch(file->data());  // still there
        touch(file->data() + 2 * kPage + 5);
      },
      testing::ExitedWithCode(kMappedFileLostExitCode),
      "weights.safetensors: the mapped file cannot be read at offset 8197 any more");
}

TEST_F(MappedFileDeathTest, AnyThreadMayTouchTheLostPage) {
  const std::string long_name = std::string(100, 'a') + "/" + std::string(200, 'b');
  std::filesystem::create_directories(path_ + "/" + std::string(100, 'a'));
  const std::string path = write(long_name, 2 * kPage);
  EXPECT_EXIT(
      {
        const Result<MappedFile> file = MappedFile::open(path);
        std::filesystem::resize_file(path, 0);
        std::thread([&] { touch(file->data() + kPage); }).join();
      },
      testing::ExitedWithCode(kMappedFileLostExitCode), "b: the mapped file cannot be read at offset 4096 any more");
}

// A map that is not ours: the handler that was there before gets the signal, or the process dies of it as usual.
const std::byte* lost_page_of_a_stranger(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "r");
  void* address = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fileno(file), 0);
  std::filesystem::resize_file(path, 0);
  return static_cast<const std::byte*>(address);
}

TEST_F(MappedFileDeathTest, OtherSignalsGoToTheHandlerBefore) {
  const std::string ours = write("ours", kPage);
  const std::string theirs = write("theirs", kPage);
  EXPECT_EXIT(
      {
        signal(SIGBUS, [](int) { _exit(5); });
        const Result<MappedFile> file = MappedFile::open(ours);
        touch(lost_page_of_a_stranger(theirs));
      },
      testing::ExitedWithCode(5), "");
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        const Result<MappedFile> file = MappedFile::open(ours);
        touch(lost_page_of_a_stranger(theirs));
      },
      testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_IGN);
        const Result<MappedFile> file = MappedFile::open(ours);
        kill(getpid(), SIGBUS);  // sent, not a fault: stays ignored
        _exit(6);
      },
      testing::ExitedWithCode(6), "");
}

// After unmapping, a fault at the same address is not blamed on the file that is gone.
TEST_F(MappedFileDeathTest, ReleasedRangesAreForgotten) {
  const std::string ours = write("ours", kPage);
  const std::string theirs = write("theirs", kPage);
  EXPECT_EXIT(
      {
        signal(SIGBUS, [](int) { _exit(5); });
        Result<MappedFile> file = MappedFile::open(ours);
        const std::byte* address = file->data();
        *file = MappedFile();
        FILE* other = std::fopen(theirs.c_str(), "r");
        void* place =
            mmap(const_cast<std::byte*>(address), kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, fileno(other), 0);
        std::filesystem::resize_file(theirs, 0);
        touch(static_cast<const std::byte*>(place));
      },
      testing::ExitedWithCode(5), "");
}

TEST(MappedFile, ManyThreadsOpenAndClose) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", std::string(kPage, 'x'));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        const Result<MappedFile> file = MappedFile::open(path);
        if (!file.ok() || static_cast<char>(file->data()[kPage - 1]) != 'x') _exit(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace deepinfer
