// PrefixTier: keeps prefixes in a KvStore and finds them there.  One worker thread does all the work with the store;
// questions go before writes but for those that concern them, and what does not fit into the queue of writes is
// dropped.  A store that is slow or fails costs hits, nothing else.  Owned by the engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/tiers/kv_store.h"
#include "engine/tiers/prefix_records.h"
#include "scheduling/cache/snapshot.h"

namespace deepinfer {

// A prefix to be kept, with the blocks that are not known to be in the store already.
struct PrefixCopy {
  uint64_t salt = 0;
  std::vector<int32_t> tokens;  // info.position of them
  SnapshotInfo info;
  std::vector<int64_t> blocks;  // numbers of the blocks that are here, ascending
  uint64_t number = 0;          // given by keep(): 1, 2, ...
  std::vector<std::byte>
      payloads;  // of these blocks, one after the other, then of the snapshot; prefixes not filled in
};

struct PrefixQuestion {
  uint64_t ticket = 0;
  uint64_t salt = 0;
  std::vector<int32_t> tokens;
  int64_t most = 0;         // tokens of the prefix
  int64_t logits_from = 0;  // what its snapshot must serve
  int64_t longer_than = 0;  // tokens: shorter ones are of no use
  uint64_t after = 0;       // given by ask(): the copy that has to be written first
};

struct PrefixAnswer {
  uint64_t ticket = 0;
  bool found = false;
  uint64_t salt = 0;
  std::vector<int32_t> tokens;  // info.position of them
  SnapshotInfo info;
  std::vector<std::byte> payloads;  // of all its blocks, then of the snapshot
};

struct PrefixTierStats {
  bool writable = false;
  int64_t questions = 0, hits = 0;
  int64_t hit_tokens = 0;
  int64_t dropped = 0;   // prefixes that were not kept: the queue was full
  int64_t failures = 0;  // writes that the store refused
  KvStoreStats store;
};

class PrefixTier {
 public:
  // rule outlives the tier.  on_answer is called on the worker thread, once for each question; must not
  // throw.
  PrefixTier(std::unique_ptr<KvStore> store, const PrefixGeometry& geometry, const SnapshotRule& rule,
             int64_t most_queued_bytes, std::function<void(PrefixAnswer)> on_answer);
  // Writes what is queued; questions that have not been answered are not any more.
  ~PrefixTier();
  PrefixTier(const PrefixTier&) = delete;
  PrefixTier& operator=(const PrefixTier&) = delete;

  const PrefixGeometry& geometry() const { return geometry_; }

  // Whether a copy of so many bytes would be taken now; counts it as dropped if not.
  bool has_room(int64_t bytes);
  // Where these throw (memory), nothing was kept or asked.
  void keep(PrefixCopy copy);
  void ask(PrefixQuestion question);
  // Evictions of the store so far: what was kept before the last one may be gone.
  int64_t evictions() const;
  PrefixTierStats stats() const;

 private:
  void work();
  void answer_questions(std::unique_lock<std::mutex>& lock);
  PrefixAnswer answer(PrefixQuestion& question);
  std::optional<SnapshotInfo> snapshot_at(const PrefixQuestion& question, const std::vector<PrefixChain>& chain,
                                          int64_t blocks);
  bool load(const PrefixQuestion& question, const std::vector<PrefixChain>& chain, PrefixAnswer& answer,
            int64_t& usable_blocks);
  void write(PrefixCopy& copy);
  void put(std::vector<KvWrite>& writes);

  std::unique_ptr<KvStore> store_;  // the worker's
  const PrefixGeometry geometry_;
  const SnapshotRule& rule_;
  const int64_t most_queued_bytes_;
  const std::function<void(PrefixAnswer)> on_answer_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  bool closing_ = false;
  std::deque<PrefixCopy> copies_;  // the first is being written
  std::deque<PrefixQuestion> questions_;
  int64_t queued_bytes_ = 0;
  uint64_t kept_ = 0, written_ = 0;  // numbers of the last copy, and of the last that was written
  PrefixTierStats stats_;

  std::thread worker_;
};

}  // namespace deepinfer
