// Folders with disk stores, and records whose content follows from their number, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/tiers/disk_kv_store.h"

namespace deepinfer {

// Empty, gone with the object.
class StoreFolder {
 public:
  StoreFolder();
  ~StoreFolder();
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  DiskKvStoreOptions options(KvDiskIo io = KvDiskIo::kAuto, int64_t capacity = int64_t{64} << 20) const;
  // Must succeed.
  std::unique_ptr<DiskKvStore> open(KvDiskIo io = KvDiskIo::kAuto, int64_t capacity = int64_t{64} << 20) const;
  // Files of all stores in the folder.
  std::vector<std::filesystem::path> files() const;

 private:
  std::filesystem::path path_;
};

struct TestRecord {
  KvKey key;
  KvNote note{};
  std::vector<std::byte> payload;
};
TestRecord test_record(uint64_t number, int version = 0);
Status put(KvStore& store, const TestRecord& record);
// Whether the store has exactly this record; false: it has none of the key.  Fails the test for anything else.
bool has(KvStore& store, const TestRecord& record);

}  // namespace deepinfer
