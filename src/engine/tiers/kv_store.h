// KvStore: records of the prefix cache below the block pool, on disk or in memory.  A record is a key, a note of two
// numbers that can be read without the payload, and a payload; it is there whole or not at all.  Stores know nothing of
// what records mean (prefix_records.h does).  Used by one thread at a time: the tier's worker.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "scheduling/cache/chain_hash.h"

namespace deepinfer {

enum class KvKind : uint32_t { kBlock = 1, kFullSnapshot = 2, kEarlySnapshot = 3 };

struct KvKey {
  KvKind kind = KvKind::kBlock;
  ChainKey chain;
  friend bool operator==(const KvKey&, const KvKey&) = default;
};

using KvNote = std::array<int64_t, 2>;

struct KvEntry {
  int64_t bytes = 0;  // of the payload
  KvNote note{};
};

struct KvWrite {
  KvKey key;
  KvNote note{};
  std::span<const std::byte> payload;
};

struct KvRead {
  KvKey key;
  std::span<std::byte> payload;  // exactly as long as the record's
  bool found = false;            // set by get(); else the payload's content is undefined
};

struct KvStoreStats {
  int64_t bytes_held = 0;
  int64_t records_written = 0, bytes_written = 0;  // payloads, as below
  int64_t records_read = 0, bytes_read = 0;
  int64_t corrupt = 0;  // records that did not match their checksums when they were read, and were dropped
  int64_t evictions = 0;
};

class KvStore {
 public:
  virtual ~KvStore() = default;

  // What is known of a record without reading it; it may still turn out to be damaged.
  virtual std::optional<KvEntry> find(const KvKey& key) = 0;
  // Reads records whose checksums match; others are not found.
  virtual void get(std::span<KvRead> reads) = 0;
  // Adds records, evicting older ones for room; an earlier record of the same key is replaced.  After an error any part
  // of them is there.  kUnsupported when the store is only read.
  virtual Status put(std::span<const KvWrite> writes) = 0;
  virtual bool writable() const = 0;

  virtual KvStoreStats stats() const = 0;
};

}  // namespace deepinfer
