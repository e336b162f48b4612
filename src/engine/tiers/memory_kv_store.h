// MemoryKvStore: a KvStore in host memory, least recently used records evicted first.  The host tier
// (EngineOptions::kv_host_bytes): what was evicted and what preempted requests have lost comes back from it.
#pragma once

#include <list>
#include <unordered_map>
#include <vector>

#include "engine/tiers/kv_store.h"

namespace deepinfer {

class MemoryKvStore final : public KvStore {
 public:
  explicit MemoryKvStore(int64_t capacity_bytes) : capacity_(capacity_bytes) {}

  std::optional<KvEntry> find(const KvKey& key) override;
  void get(std::span<KvRead> reads) override;
  // kResourceExhausted for a record larger than the capacity.
  Status put(std::span<const KvWrite> writes) override;
  bool writable() const override { return true; }
  KvStoreStats stats() const override { return stats_; }

 private:
  struct Record {
    KvKey key;
    KvNote note;
    std::vector<std::byte> payload;
  };
  struct HashOf {
    size_t operator()(const KvKey& key) const { return key.chain.low ^ static_cast<uint64_t>(key.kind); }
  };
  using Records = std::list<Record>;
  void drop(Records::iterator record);

  int64_t capacity_;
  Records records_;  // the most recently used first
  std::unordered_map<KvKey, Records::iterator, HashOf> places_;
  KvStoreStats stats_;
};

}  // namespace deepinfer
