// Stores of the prefix cache's records: what was put comes back, also in a later process, in its room and no more.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/tiers/memory_kv_store.h"
#include "engine/tiers/segment_record.h"
#include "engine/tiers/store_folder.h"

namespace deepinfer {
namespace {

class DiskStore : public testing::TestWithParam<KvDiskIo> {
 protected:
  void SetUp() override {
    if (make_file_io(GetParam()) == nullptr) GTEST_SKIP() << "io_uring is not permitted here";
  }
};

TEST_P(DiskStore, KeepsRecordsFromOpenToOpen) {
  const StoreFolder folder;
  {
    const auto store = folder.open(GetParam());
    EXPECT_TRUE(store->writable());
    EXPECT_EQ(store->io_name(), GetParam() == KvDiskIo::kUring ? "io_uring" : "pread");
    for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(put(*store, test_record(i)).ok());
    for (uint64_t i = 0; i < 200; ++i) EXPECT_TRUE(has(*store, test_record(i))) << i;
  }
  const auto store = folder.open(GetParam());
  for (uint64_t i = 0; i < 200; ++i) EXPECT_TRUE(has(*store, test_record(i))) << i;
  EXPECT_FALSE(store->find(test_record(200).key));
  EXPECT_EQ(store->stats().corrupt, 0);
  EXPECT_EQ(store->stats().records_read, 200);
  ASSERT_TRUE(put(*store, test_record(200)).ok());
  EXPECT_TRUE(has(*store, test_record(200)));
}

TEST_P(DiskStore, ManyAtOnce) {
  const StoreFolder folder;
  const auto store = folder.open(GetParam());
  std::vector<TestRecord> records;
  for (uint64_t i = 0; i < 300; ++i) records.push_back(test_record(i));
  std::vector<KvWrite> writes;
  for (const TestRecord& record : records) writes.push_back({record.key, record.note, record.payload});
  ASSERT_TRUE(store->put(writes).ok());
  std::vector<std::vector<std::byte>> payloads;
  std::vector<KvRead> reads;
  for (const TestRecord& record : records) payloads.emplace_back(record.payload.size());
  for (size_t i = 0; i < records.size(); ++i) reads.push_back({records[i].key, payloads[i]});
  store->get(reads);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_TRUE(reads[i].found);
    EXPECT_TRUE(payloads[i] == records[i].payload);
  }
}

TEST_P(DiskStore, TheLastRecordOfAKeyCounts) {
  const StoreFolder folder;
  for (int version = 0; version < 4; ++version) {
    const auto store = folder.open(GetParam());
    if (version > 0) {
      EXPECT_TRUE(has(*store, test_record(7, version - 1)));
    }
    ASSERT_TRUE(put(*store, test_record(7, version)).ok());
    EXPECT_TRUE(has(*store, test_record(7, version)));
  }
}

TEST_P(DiskStore, StaysInItsRoom) {
  const StoreFolder folder;
  constexpr int64_t kCapacity = 2 << 20;
  const auto store = folder.open(GetParam(), kCapacity);
  const TestRecord used = test_record(0);
  ASSERT_TRUE(put(*store, used).ok());
  for (uint64_t i = 1; i < 1000; ++i) {
    ASSERT_TRUE(put(*store, test_record(i)).ok());
    ASSERT_LE(store->stats().bytes_held, kCapacity);
    if (i < 100) {
      EXPECT_TRUE(has(*store, used)) << i;  // not yet full
    }
  }
  EXPECT_GT(store->stats().evictions, 0);
  EXPECT_FALSE(has(*store, test_record(1)));
  EXPECT_TRUE(has(*store, test_record(999)));
  uintmax_t segments = 0;
  for (const auto& file : folder.files()) {
    if (file.extension() == ".kv") segments += std::filesystem::file_size(file);
  }
  EXPECT_LE(segments, static_cast<uintmax_t>(kCapacity));
  TestRecord large = test_record(5);
  large.payload.resize(kCapacity / 4 + 1);
  EXPECT_EQ(put(*store, large).code(), StatusCode::kResourceExhausted);
}

INSTANTIATE_TEST_SUITE_P(Io, DiskStore, testing::Values(KvDiskIo::kPread, KvDiskIo::kUring),
                         [](const auto& info) { return info.param == KvDiskIo::kUring ? "uring" : "pread"; });

TEST(DiskStores, OfAnotherIdentityHaveNothingInCommon) {
  const StoreFolder folder;
  DiskKvStoreOptions other = folder.options();
  other.identity = "another test";
  ASSERT_TRUE(put(*folder.open(), test_record(1)).ok());
  EXPECT_FALSE((*DiskKvStore::open(other))->find(test_record(1).key));
  EXPECT_TRUE(has(*folder.open(), test_record(1)));
  // Not even if a segment is carried over.
  const auto path_of = [](const DiskKvStoreOptions& options) { return (*DiskKvStore::open(options))->folder(); };
  const auto own = path_of(folder.options()), others = path_of(other);
  std::filesystem::copy_file(own / "seg-0000000001.kv", others / "seg-0000000001.kv");
  std::filesystem::remove(others / "index.seal");
  EXPECT_FALSE((*DiskKvStore::open(other))->find(test_record(1).key));
}

TEST(DiskStores, OfOtherIdentitiesGoFirst) {
  const StoreFolder folder;
  DiskKvStoreOptions other = folder.options();
  other.identity = "another test";
  {
    const auto store = std::move(DiskKvStore::open(other)).value();
    for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(put(*store, test_record(i)).ok());
  }
  const auto store = folder.open(KvDiskIo::kAuto, kLeastKvDiskBytes);
  int64_t bytes = 0;
  for (const auto& file : folder.files()) bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  EXPECT_LT(bytes, kLeastKvDiskBytes);
}

TEST(DiskStores, AreOpenOnceInAProcess) {
  const StoreFolder folder;
  const auto store = folder.open();
  const auto again = DiskKvStore::open(folder.options());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().code(), StatusCode::kInvalidArgument);
}

// Runs a check in a process of its own.
template <typename Check>
bool in_another_process(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() && !testing::Test::HasFailure() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(DiskStores, ASecondProcessReadsWhatTheFirstWrites) {
  const StoreFolder folder;
  int ready[2], go_on[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go_on), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    const auto store = folder.open();
    char byte = 0;
    bool fine = put(*store, test_record(1)).ok();
    fine = fine && ::write(ready[1], "a", 1) == 1 && ::read(go_on[0], &byte, 1) == 1;
    fine = fine && put(*store, test_record(2)).ok();
    fine = fine && ::write(ready[1], "b", 1) == 1 && ::read(go_on[0], &byte, 1) == 1;
    ::_exit(fine ? 0 : 1);  // as if killed: nothing is closed
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  {
    const auto store = folder.open();
    EXPECT_FALSE(store->writable());
    EXPECT_TRUE(has(*store, test_record(1)));
    EXPECT_FALSE(has(*store, test_record(2)));
    EXPECT_EQ(put(*store, test_record(3)).code(), StatusCode::kUnsupported);
    ASSERT_EQ(::write(go_on[1], "a", 1), 1);
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_TRUE(has(*store, test_record(2)));
    ASSERT_EQ(::write(go_on[1], "b", 1), 1);
    int status = 0;
    ::waitpid(writer, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    // The next writer makes the index again; this reader keeps the old one.
    EXPECT_TRUE(in_another_process([&] {
      const StoreFolder* const same = &folder;
      const auto next = DiskKvStore::open(DiskKvStoreOptions{same->path(), int64_t{64} << 20, "a test!", {}});
      return next.ok();
    }));
    EXPECT_TRUE(has(*store, test_record(1)));
  }
  const auto store = folder.open();
  EXPECT_TRUE(store->writable());
  EXPECT_TRUE(has(*store, test_record(1)));
  EXPECT_TRUE(has(*store, test_record(2)));
}

TEST(MemoryStore, KeepsTheRecentlyUsed) {
  MemoryKvStore store(100'000);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(put(store, test_record(i)).ok());
    EXPECT_TRUE(has(store, test_record(i)));
    EXPECT_TRUE(has(store, test_record(0)));
    EXPECT_LE(store.stats().bytes_held, 100'000);
  }
  EXPECT_FALSE(has(store, test_record(1)));
}

TEST(SegmentRecord, AnyFlippedBitIsNoticed) {
  RecordHeader header;
  header.key = {KvKind::kFullSnapshot, {1, 2}};
  header.note = {3, 4};
  header.payload_bytes = 5;
  std::array<std::byte, kRecordHeaderBytes> bytes;
  encode(header, 99, bytes);
  ASSERT_TRUE(decode_record_header(bytes, 99));
  EXPECT_FALSE(decode_record_header(bytes, 98));
  for (size_t bit = 0; bit < 8 * kRecordHeaderBytes; ++bit) {
    bytes[bit / 8] ^= std::byte(1U << (bit % 8));
    EXPECT_FALSE(decode_record_header(bytes, 99)) << bit;
    bytes[bit / 8] ^= std::byte(1U << (bit % 8));
  }
}

}  // namespace
}  // namespace deepinfer
