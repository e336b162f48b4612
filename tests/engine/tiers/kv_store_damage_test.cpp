// Whatever happens to a process that writes a disk store, or to its files: a record that is read is the one that was
// put.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "engine/tiers/store_folder.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRecords = 60;
constexpr int kVersions = 3;

// Records of the test that the store has; anything else fails it.
uint64_t intact_records(KvStore& store) {
  uint64_t intact = 0;
  for (uint64_t i = 0; i < kRecords; ++i) {
    const auto entry = store.find(test_record(i).key);
    if (!entry) continue;
    const auto version = entry->note[1];
    EXPECT_TRUE(version >= 0 && version < kVersions && entry->note[0] == static_cast<int64_t>(i)) << i;
    if (version >= 0 && version < kVersions && has(store, test_record(i, static_cast<int>(version)))) ++intact;
  }
  return intact;
}

void damage(const fs::path& file, std::mt19937_64& random) {
  const uint64_t size = fs::file_size(file);
  switch (random() % 4) {
    case 0:  // gone
      fs::remove(file);
      return;
    case 1:  // cut off
      fs::resize_file(file, size == 0 ? 0 : random() % size);
      return;
    case 2: {  // a part that was never written
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(static_cast<std::streamoff>(size == 0 ? 0 : random() % size));
      const std::string zeros(1 + random() % 9000, '\0');
      out << zeros;
      return;
    }
    default: {  // bits that fell over
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      for (int i = 0; i < 20 && size > 0; ++i) {
        out.seekp(static_cast<std::streamoff>(random() % size));
        out.put(static_cast<char>(random()));
      }
    }
  }
}

TEST(DamagedStore, NeverGivesWrongRecords) {
  uint64_t found = 0, opened = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const StoreFolder folder;
    {
      const auto store = folder.open(KvDiskIo::kAuto, 8 << 20);
      for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(put(*store, test_record(i, 0)).ok());
    }
    const std::vector<fs::path> files = folder.files();
    const uint64_t damages = 1 + random() % 3;
    for (uint64_t d = 0; d < damages; ++d) {
      const fs::path& file = files[random() % files.size()];
      if (fs::exists(file)) damage(file, random);
    }
    {
      const auto store = folder.open(random() % 2 == 0 ? KvDiskIo::kPread : KvDiskIo::kAuto, 8 << 20);
      ++opened;
      found += intact_records(*store);
      // It goes on as a store should.
      for (uint64_t i = 0; i < kRecords; i += 3) ASSERT_TRUE(put(*store, test_record(i, 1)).ok());
      for (uint64_t i = 0; i < kRecords; i += 3) EXPECT_TRUE(has(*store, test_record(i, 1))) << i;
    }
    intact_records(*folder.open(KvDiskIo::kAuto, 8 << 20));
    if (HasFailure()) return;
  }
  EXPECT_GT(found, opened * kRecords / 4) << "damage in one place costs everything";
}

// A segment is cut at every byte of its last record: the torn record is gone, those before it are there.
TEST(DamagedStore, ATornRecordIsDiscarded) {
  std::vector<TestRecord> records;
  for (uint64_t i = 0; i < 3; ++i) {
    records.push_back(test_record(i));
    records.back().payload.resize(100 + 3 * i);
  }
  for (size_t cut = 1; cut <= 72 + 106; ++cut) {
    const StoreFolder folder;
    fs::path own;
    {
      const auto store = folder.open();
      own = store->folder();
      for (const TestRecord& record : records) ASSERT_TRUE(put(*store, record).ok());
    }
    const fs::path segment = own / "seg-0000000001.kv";
    fs::resize_file(segment, fs::file_size(segment) - cut);
    if (cut % 2 == 0) fs::remove(own / "index.seal");  // also as a killed process leaves it
    const auto store = folder.open();
    ASSERT_TRUE(has(*store, records[0])) << cut;
    ASSERT_TRUE(has(*store, records[1])) << cut;
    ASSERT_FALSE(has(*store, records[2])) << cut;
    ASSERT_TRUE(put(*store, records[2]).ok());
    ASSERT_TRUE(has(*store, records[2])) << cut;
  }
}

// Writers are killed at any time; the next one finds what was put, as far as it is whole.
TEST(KilledWriter, LeavesAStoreThatIsRight) {
  const StoreFolder folder;
  std::mt19937_64 random(1);
  uint64_t found = 0;
  for (int round = 0; round < 25; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t writer = ::fork();
    if (writer == 0) {
      const auto store = folder.open(round % 2 == 0 ? KvDiskIo::kPread : KvDiskIo::kAuto, 1 << 20);
      if (::write(ready[1], "a", 1) != 1) ::_exit(1);
      for (uint64_t i = static_cast<uint64_t>(round);; ++i)
        if (!put(*store, test_record(i % kRecords, static_cast<int>(i % kVersions))).ok()) ::_exit(1);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    ::kill(writer, SIGKILL);
    int status = 0;
    ::waitpid(writer, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed";
    ::close(ready[0]);
    ::close(ready[1]);
    const auto store = folder.open(KvDiskIo::kAuto, 1 << 20);
    ASSERT_TRUE(store->writable());
    found += intact_records(*store);
    if (HasFailure()) return;
  }
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace deepinfer
