#include "engine/tiers/store_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

namespace deepinfer {

namespace fs = std::filesystem;

StoreFolder::StoreFolder() {
  std::string name = (fs::temp_directory_path() / "deepinfer-kv-XXXXXX").string();
  DI_CHECK(::mkdtemp(name.data()) != nullptr, name);
  path_ = name;
}

StoreFolder::~StoreFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

DiskKvStoreOptions StoreFolder::options(KvDiskIo io, int64_t capacity) const {
  return {.folder = path_, .capacity_bytes = capacity, .identity = "a test", .io = io};
}

std::unique_ptr<DiskKvStore> StoreFolder::open(KvDiskIo io, int64_t capacity) const {
  auto store = DiskKvStore::open(options(io, capacity));
  DI_CHECK(store.ok(), store.status().message());
  return std::move(store).value();
}

std::vector<fs::path> StoreFolder::files() const {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path_))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TestRecord test_record(uint64_t number, int version) {
  std::mt19937_64 random(number * 1000 + static_cast<uint64_t>(version));
  TestRecord record;
  record.key = {static_cast<KvKind>(1 + number % 3), {number * 0x9E3779B97F4A7C15U, number}};
  record.note = {static_cast<int64_t>(number), version};
  record.payload.resize(1 + random() % 20'000);
  for (std::byte& b : record.payload) b = static_cast<std::byte>(random());
  return record;
}

Status put(KvStore& store, const TestRecord& record) {
  const KvWrite write{record.key, record.note, record.payload};
  return store.put(std::span(&write, 1));
}

bool has(KvStore& store, const TestRecord& record) {
  const auto entry = store.find(record.key);
  if (!entry) return false;
  std::vector<std::byte> payload(static_cast<size_t>(entry->bytes));
  KvRead read{record.key, payload};
  store.get(std::span(&read, 1));
  if (!read.found) return false;
  EXPECT_EQ(entry->note, record.note);
  EXPECT_TRUE(payload == record.payload) << "a record with another's bytes";
  return payload == record.payload;
}

}  // namespace deepinfer
