// DiskKvStore: a KvStore in a folder that outlives the process.  Records lie in append-only segment files, an LMDB
// index says where (docs/kv-tiers.md).
//
// One process writes, the one that has the folder's lock; others that open it meanwhile read.  Whatever happens to the
// process or the files at any byte, get() returns what was put or finds nothing.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/tiers/file_io.h"
#include "engine/tiers/kv_store.h"
#include "engine/tiers/record_index.h"
#include "engine/tiers/segments.h"

namespace deepinfer {

inline constexpr int64_t kLeastKvDiskBytes = int64_t{1} << 20;

struct DiskKvStoreOptions {
  std::filesystem::path folder;  // of all identities; made if it is not there
  int64_t capacity_bytes = 0;    // of all identities together; at least kLeastKvDiskBytes
  std::string identity;          // records are found by stores of the same identity only (tier_identity.h)
  KvDiskIo io = KvDiskIo::kAuto;
};

class DiskKvStore final : public KvStore {
 public:
  // Errors: kIoError naming the file, kUnsupported for io_uring where it is not permitted, kInvalidArgument for a
  // folder that this process has open already.
  static Result<std::unique_ptr<DiskKvStore>> open(const DiskKvStoreOptions& options);
  // Seals the index.  A store that was not closed is as good, but opening it takes a scan.
  ~DiskKvStore() override;

  std::optional<KvEntry> find(const KvKey& key) override;
  void get(std::span<KvRead> reads) override;
  Status put(std::span<const KvWrite> writes) override;
  bool writable() const override { return lock_ >= 0; }
  KvStoreStats stats() const override;

  std::string_view io_name() const { return io_->name(); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  DiskKvStore(std::filesystem::path folder, int64_t capacity, uint64_t identity, std::unique_ptr<FileIo> io);

  Status open_index();
  Status rebuild_index();
  void drop_strays();
  Status go_on_writing();
  bool fits_as_it_is(uint64_t bytes) const;
  Status make_room(uint64_t bytes);
  Status append(uint64_t offset, std::span<const KvWrite> writes);
  void dropped(const KvKey& key);

  std::filesystem::path folder_;  // of the identity
  int64_t capacity_;
  uint64_t segment_bytes_;  // a segment that has so many is closed
  uint64_t map_bytes_;
  uint64_t identity_;
  std::unique_ptr<FileIo> io_;
  int lock_ = -1;
  bool registered_ = false;
  Segments segments_;
  std::unique_ptr<RecordIndex> index_;  // null: nothing can be read
  uint32_t active_ = 0;                 // segment that is written; 0: none yet
  KvStoreStats stats_;
};

}  // namespace deepinfer
