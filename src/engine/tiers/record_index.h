// RecordIndex: where the records of a disk store lie, in an LMDB file that other processes read meanwhile.
//
// LMDB trusts its pages, so a file is opened only if it is sound: the writer seals it with a checksum when it closes
// it, breaks the seal when it opens it, and an index without a right seal is not used but made again from the segments.
// That makes it needless to wait for the disk at commits, whatever happens to process or machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "engine/tiers/kv_store.h"

struct MDB_env;

namespace deepinfer {

struct RecordPlace {
  uint32_t segment = 0;
  uint64_t offset = 0;  // of its header
  KvEntry entry;
};

class RecordIndex {
 public:
  using Entry = std::pair<KvKey, RecordPlace>;

  // Whether the seal of the index in `folder` is right: nobody has it open for writing, and it is as it was closed.
  static bool sealed(const std::filesystem::path& folder);
  // Makes the index anew.  Only the process that has the writer's lock; the index is not open.
  static Status build(const std::filesystem::path& folder, uint64_t map_bytes, std::span<const Entry> entries);
  // Opens a sound index; the writer breaks the seal.
  static Result<RecordIndex> open(const std::filesystem::path& folder, uint64_t map_bytes, bool writable);

  RecordIndex(RecordIndex&& other) noexcept;
  RecordIndex& operator=(RecordIndex&&) = delete;
  ~RecordIndex();

  std::optional<RecordPlace> find(const KvKey& key) const;
  Status put(std::span<const Entry> entries);
  void remove(const KvKey& key);
  // All records that lie in the segment.
  Status remove_segment(uint32_t segment);
  void for_each(FunctionRef<void(const KvKey&, const RecordPlace&)> visit) const;

  // Seals what is there; the index is not used afterwards.
  Status close();

 private:
  RecordIndex(std::filesystem::path folder, MDB_env* env, unsigned database, bool writable)
      : folder_(std::move(folder)), env_(env), database_(database), writable_(writable) {}

  std::filesystem::path folder_;
  MDB_env* env_;
  unsigned database_;
  bool writable_;
};

}  // namespace deepinfer
