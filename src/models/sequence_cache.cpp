#include "models/sequence_cache.h"

#include <utility>

namespace deepinfer {

Result<SequenceCache> SequenceCache::create(const CacheLayout& layout) {
  SequenceCache cache(layout);
  DI_ASSIGN_OR_RETURN(cache.rings_, Buffer::allocate(static_cast<uint64_t>(layout.bytes_per_sequence())));
  std::byte* ring = cache.rings_.data();
  int64_t offset = 0;
  for (const CacheGroupSpec& group : layout.groups) {
    for (size_t i = 0; i < group.layers.size(); ++i) {
      if (group.is_ring()) {
        cache.rings_list_.push_back({ring, group.slots, group.record_bytes});
        ring += group.slots * group.record_bytes;
      } else {
        const int64_t rows = layout.tokens_per_block / group.tokens_per_record;
        cache.histories_.push_back({nullptr, rows, group.record_bytes});
        cache.part_offsets_.push_back(offset);
        offset += rows * group.record_bytes;
      }
    }
  }
  cache.block_lists_.resize(cache.histories_.size());
  return cache;
}

Status SequenceCache::reserve(int64_t tokens) {
  while (capacity() < tokens) {
    DI_ASSIGN_OR_RETURN(Buffer block, Buffer::allocate(static_cast<uint64_t>(layout_.bytes_per_block())));
    for (size_t i = 0; i < block_lists_.size(); ++i) {
      block_lists_[i].push_back(block.data() + part_offsets_[i]);
      histories_[i].blocks = block_lists_[i].data();
    }
    blocks_.push_back(std::move(block));
  }
  return {};
}

int64_t SequenceCache::bytes() const {
  return layout_.bytes_per_sequence() + static_cast<int64_t>(blocks_.size()) * layout_.bytes_per_block();
}

}  // namespace deepinfer
