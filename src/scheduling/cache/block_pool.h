// BlockPool: who holds which block of the cache.  A block is tokens_per_block tokens of all full-history groups of a
// sequence, or part of a snapshot; the pool knows neither.  Ids only, no memory.  Used by CacheCoordinator and
// PrefixIndex.
//
// A block is free, or held by one or more holders, or cached, or both held and cached.  Cached and not held is idle:
// its content may be used again, or it may be evicted.
// All memory is allocated by the constructor.  Every call costs O(1) for a block.  Misuse aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer {

using BlockId = int32_t;

class BlockPool {
 public:
  explicit BlockPool(int64_t blocks);  // 0 to 2^31 - 1

  int64_t size() const { return static_cast<int64_t>(holders_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t idle() const { return idle_; }

  // Takes out.size() free blocks with one holder each; false and nothing taken when there are fewer.
  bool take(std::span<BlockId> out);
  // One holder more, of a held or cached block.
  void hold(BlockId block);
  // One holder less; without holders a block that is not cached is free.
  void release(BlockId block);

  // The prefix index has the block, which somebody holds and which was not cached.
  void cache(BlockId block);
  // It has it no longer; without holders the block is free.
  void uncache(BlockId block);

  int64_t holders(BlockId block) const { return holders_[index(block)]; }
  bool cached(BlockId block) const { return cached_[index(block)] != 0; }

  // Aborts unless free + held + idle = size and every counter agrees.  O(size).
  void check_integrity() const;
  // The part of it that is about one block.  O(1).
  void check_block(BlockId block) const;

 private:
  friend struct CacheFaults;  // of tests
  bool is_free(BlockId block) const;
  void make_free(BlockId block);
  size_t index(BlockId block) const;  // aborts when the pool has no such block

  std::vector<int32_t> holders_;
  std::vector<uint8_t> cached_;
  std::vector<BlockId> free_;        // a stack
  std::vector<int32_t> free_place_;  // where a free block is in it; of others whatever it was
  int64_t idle_ = 0;
};

}  // namespace deepinfer
