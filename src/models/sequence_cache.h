// SequenceCache: the memory of one sequence's cached records, laid out as a CacheLayout says.  Owned by the generator.
// Rings are allocated once; full history by runs of blocks of CacheLayout::tokens_per_block tokens, all groups
// together.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "models/cache_layout.h"
#include "tensor/buffer.h"

namespace deepinfer {

class SequenceCache {
 public:
  static Result<SequenceCache> create(const CacheLayout& layout, Memory& memory = host_memory());

  // Makes room for this many tokens; never shrinks.  Large runs of blocks take no memory before they are written.
  // kResourceExhausted when the system has none left; nothing has changed then.
  Status reserve(int64_t tokens);
  int64_t capacity() const { return block_count_ * layout_.tokens_per_block; }  // tokens

  // Valid until the next reserve().
  CacheView view() const { return {histories_, rings_list_}; }
  int64_t bytes() const;

 private:
  SequenceCache(CacheLayout layout, Memory& memory) : layout_(std::move(layout)), memory_(&memory) {}
  static Result<SequenceCache> lay_out(const CacheLayout& layout, Memory& memory);
  Status add_blocks(int64_t tokens);

  CacheLayout layout_;
  Memory* memory_;
  Buffer rings_;
  std::vector<Buffer> runs_;                          // of blocks; in a block the parts of all groups and layers
  int64_t block_count_ = 0;                           // of all runs
  std::vector<int64_t> part_offsets_;                 // of each history inside a block
  std::vector<std::vector<std::byte*>> block_lists_;  // of each history
  std::vector<BlockList> histories_;
  std::vector<Ring> rings_list_;
};

}  // namespace deepinfer
