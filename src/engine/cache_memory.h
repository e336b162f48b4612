// CacheMemory: the memory behind block ids and state slots, laid out as a CacheLayout says.  Planned and allocated
// once, when the engine opens; used by the step executor, and by the planner for blocks that no step uses.
//
// A block holds tokens_per_block tokens of every full-history group and layer, one part after the other.  A state slot
// holds all rings of one sequence.  A snapshot is a run of bytes over a list of blocks: of each window group and layer
// the records of the positions that a row at the boundary may read, oldest first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "models/cache_layout.h"
#include "scheduling/cache/block_pool.h"
#include "scheduling/cache/snapshot.h"
#include "tensor/buffer.h"

namespace deepinfer {

class CacheMemory {
 public:
  // memory: the backend's.  kResourceExhausted when it has no room.
  static Result<CacheMemory> create(const CacheLayout& layout, int64_t blocks, int state_slots,
                                    Memory& memory = host_memory());

  // Waits for the operations that were called before.
  void finish() { memory_->finish(); }

  const CacheLayout& layout() const { return layout_; }
  int64_t bytes() const;
  // Gives the memory of all blocks and slots back to the system until it is written to again; what it held is lost.
  void give_back();

  // Blocks that a snapshot takes; 0: the layout has no windows of this kind.
  static int64_t snapshot_blocks(const CacheLayout& layout, SnapshotKind kind);

  int64_t histories() const { return static_cast<int64_t>(part_offsets_.size()); }
  // The part of a block that belongs to history h (order of CacheView::histories).
  std::byte* history_part(BlockId block, int64_t h) {
    return block_data(block) + part_offsets_[static_cast<size_t>(h)];
  }
  // All bytes of a block, from or to the host.
  void write_block(BlockId block, const std::byte* from) {
    memory_->write(block_data(block), from, static_cast<size_t>(block_bytes_));
  }
  void read_block(BlockId block, std::byte* to) {
    memory_->read(to, block_data(block), static_cast<size_t>(block_bytes_));
  }
  // A BlockList over pointers made with history_part().
  BlockList history(int64_t h, std::span<std::byte* const> parts) const;
  std::span<const Ring> rings(int state_slot) const;

  // Copies the windows at `position` out of a state slot or back into one.  blocks: snapshot_blocks() of them.
  void save(int state_slot, int64_t position, SnapshotKind kind, std::span<const BlockId> blocks);
  void restore(int state_slot, int64_t position, SnapshotKind kind, std::span<const BlockId> blocks);

 private:
  CacheMemory(CacheLayout layout, Memory& memory) : layout_(std::move(layout)), memory_(&memory) {}
  // Calls copy(place in the snapshot, records in the ring, bytes) for every piece of every window.
  template <typename Copy>
  void for_each_window(int state_slot, int64_t position, SnapshotKind kind, std::span<const BlockId> blocks, Copy copy);
  std::byte* block_data(BlockId block) { return blocks_.data() + static_cast<int64_t>(block) * block_bytes_; }

  CacheLayout layout_;
  Memory* memory_;
  int64_t block_bytes_ = 0;
  Buffer blocks_;
  Buffer slots_;
  std::vector<int64_t> part_offsets_;        // of each history inside a block
  std::vector<BlockList> history_geometry_;  // without blocks
  std::vector<Ring> rings_;                  // [state slot][ring]
  int64_t rings_per_slot_ = 0;
  std::vector<std::byte*> snapshot_;  // blocks of the snapshot under way
};

}  // namespace deepinfer
