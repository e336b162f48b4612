#include "scheduling/cache/block_pool.h"

#include <limits>
#include <string>

#include "base/check.h"

namespace deepinfer {

BlockPool::BlockPool(int64_t blocks) {
  DI_CHECK(blocks >= 0 && blocks <= std::numeric_limits<BlockId>::max(), std::to_string(blocks) + " blocks");
  holders_.resize(static_cast<size_t>(blocks));
  cached_.resize(static_cast<size_t>(blocks));
  free_.reserve(static_cast<size_t>(blocks));
  free_place_.resize(static_cast<size_t>(blocks));
  for (int64_t block = blocks - 1; block >= 0; --block) make_free(static_cast<BlockId>(block));
}

bool BlockPool::is_free(BlockId block) const {
  const auto place = static_cast<size_t>(free_place_[index(block)]);
  return place < free_.size() && free_[place] == block;
}

void BlockPool::make_free(BlockId block) {
  free_place_[index(block)] = static_cast<int32_t>(free_.size());
  free_.push_back(block);
}

size_t BlockPool::index(BlockId block) const {
  DI_CHECK(block >= 0 && block < size(), "block " + std::to_string(block) + " of " + std::to_string(size()));
  return static_cast<size_t>(block);
}

bool BlockPool::take(std::span<BlockId> out) {
  if (out.size() > free_.size()) return false;
  for (BlockId& block : out) {
    block = free_.back();
    free_.pop_back();
    holders_[index(block)] = 1;
  }
  return true;
}

void BlockPool::hold(BlockId block) {
  int32_t& holders = holders_[index(block)];
  DI_CHECK(holders > 0 || cached(block), "block " + std::to_string(block) + " is free");
  DI_CHECK(holders < std::numeric_limits<int32_t>::max(), "block " + std::to_string(block));
  if (holders++ == 0) --idle_;
}

void BlockPool::release(BlockId block) {
  int32_t& holders = holders_[index(block)];
  DI_CHECK(holders > 0, "nobody holds block " + std::to_string(block));
  if (--holders > 0) return;
  if (cached(block)) {
    ++idle_;
  } else {
    make_free(block);
  }
}

void BlockPool::cache(BlockId block) {
  DI_CHECK(holders(block) > 0, "nobody holds block " + std::to_string(block));
  DI_CHECK(!cached(block), "block " + std::to_string(block) + " is cached already");
  cached_[index(block)] = 1;
}

void BlockPool::uncache(BlockId block) {
  DI_CHECK(cached(block), "block " + std::to_string(block) + " is not cached");
  cached_[index(block)] = 0;
  if (holders(block) > 0) return;
  --idle_;
  make_free(block);
}

void BlockPool::check_integrity() const {
  int64_t idle = 0;
  for (size_t i = 0; i < holders_.size(); ++i) {
    check_block(static_cast<BlockId>(i));
    if (holders_[i] == 0 && cached_[i] != 0) ++idle;
  }
  DI_CHECK(idle == idle_, std::to_string(idle) + " blocks are idle, counted " + std::to_string(idle_));
}

// Places in the stack have numbers as blocks have: the place of the block's number is looked at too.
void BlockPool::check_block(BlockId block) const {
  const size_t i = index(block);
  DI_CHECK(holders_[i] >= 0, "block " + std::to_string(block));
  DI_CHECK(is_free(block) == (holders_[i] == 0 && cached_[i] == 0),
           "block " + std::to_string(block) + ": free " + std::to_string(is_free(block)) + ", holders " +
               std::to_string(holders_[i]) + ", cached " + std::to_string(cached_[i]));
  DI_CHECK(holders_[i] == 0 || free() + idle_ < size(), "block " + std::to_string(block) + " is held, counted 0");
  if (i < free_.size())
    DI_CHECK(free_place_[index(free_[i])] == block, "block " + std::to_string(free_[i]) + " is free twice");
}

}  // namespace deepinfer
