#include "models/sequence_cache.h"

#include <string>
#include <utility>

#include "base/out_of_memory.h"

namespace deepinfer {

namespace {

std::string describe(int64_t tokens) {
  return "the cache of a sequence of " + std::to_string(tokens) + " tokens";
}

}  // namespace

Result<SequenceCache> SequenceCache::create(const CacheLayout& layout, Memory& memory) {
  return or_out_of_memory([] { return describe(0); }, [&] { return lay_out(layout, memory); });
}

Result<SequenceCache> SequenceCache::lay_out(const CacheLayout& layout, Memory& memory) {
  SequenceCache cache(layout, memory);
  DI_ASSIGN_OR_RETURN(cache.rings_, Buffer::allocate(static_cast<uint64_t>(layout.bytes_per_sequence()), memory));
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
  return or_out_of_memory([&] { return describe(tokens); }, [&] { return add_blocks(tokens); });
}

Status SequenceCache::add_blocks(int64_t tokens) {
  const int64_t total = (tokens + layout_.tokens_per_block - 1) / layout_.tokens_per_block;
  if (total <= block_count_) return {};
  constexpr int64_t kAlignment = Buffer::kAlignment;
  const int64_t stride = (layout_.bytes_per_block() + kAlignment - 1) / kAlignment * kAlignment;
  Result<Buffer> run = Buffer::allocate(static_cast<uint64_t>((total - block_count_) * stride), *memory_);
  if (!run.ok()) return run.status().with_context(describe(tokens));
  // What can fail comes before what changes anything.
  runs_.reserve(runs_.size() + 1);
  for (auto& list : block_lists_) list.reserve(static_cast<size_t>(total));
  for (size_t i = 0; i < block_lists_.size(); ++i) {
    for (int64_t block = block_count_; block < total; ++block)
      block_lists_[i].push_back(run->data() + (block - block_count_) * stride + part_offsets_[i]);
    histories_[i].blocks = block_lists_[i].data();
    histories_[i].count = total;
  }
  runs_.push_back(std::move(run).value());
  block_count_ = total;
  return {};
}

int64_t SequenceCache::bytes() const {
  return layout_.bytes_per_sequence() + block_count_ * layout_.bytes_per_block();
}

}  // namespace deepinfer
