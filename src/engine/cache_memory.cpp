#include "engine/cache_memory.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace deepinfer {
namespace {

bool in_snapshot(const CacheGroupSpec& group, SnapshotKind kind) {
  return group.retention == CacheRetention::kSlidingWindow && (kind == SnapshotKind::kFull || group.early);
}

// Records below a boundary that a row at it may read.
int64_t snapshot_rows(const CacheGroupSpec& group) {
  return group.window - 1;
}

int64_t snapshot_bytes(const CacheLayout& layout, SnapshotKind kind) {
  int64_t bytes = 0;
  for (const CacheGroupSpec& group : layout.groups) {
    if (in_snapshot(group, kind))
      bytes += static_cast<int64_t>(group.layers.size()) * snapshot_rows(group) * group.record_bytes;
  }
  return bytes;
}

// Bytes one after the other over a list of blocks.
class BlockBytes {
 public:
  BlockBytes(std::span<std::byte* const> blocks, int64_t block_bytes) : blocks_(blocks), block_bytes_(block_bytes) {}

  // Calls piece(memory, offset, bytes) for the next `count` bytes, in parts that lie in one block.
  template <typename Piece>
  void next(int64_t count, Piece piece) {
    for (int64_t done = 0; done < count;) {
      const int64_t inside = at_ % block_bytes_;
      const int64_t bytes = std::min(count - done, block_bytes_ - inside);
      piece(blocks_[static_cast<size_t>(at_ / block_bytes_)] + inside, done, bytes);
      at_ += bytes;
      done += bytes;
    }
  }

 private:
  std::span<std::byte* const> blocks_;
  int64_t block_bytes_;
  int64_t at_ = 0;
};

// The records of positions [first, first + count) of a ring in at most two pieces of memory.
template <typename Piece>
void ring_pieces(const Ring& ring, int64_t first, int64_t count, Piece piece) {
  while (count > 0) {
    const int64_t run = std::min(count, ring.slots - first % ring.slots);
    piece(ring.record(first), run * ring.record_bytes);
    first += run;
    count -= run;
  }
}

}  // namespace

int64_t CacheMemory::snapshot_blocks(const CacheLayout& layout, SnapshotKind kind) {
  const int64_t block = layout.bytes_per_block();
  return (snapshot_bytes(layout, kind) + block - 1) / block;
}

Result<CacheMemory> CacheMemory::create(const CacheLayout& layout, int64_t blocks, int state_slots, Memory& of) {
  CacheMemory memory(layout, of);
  memory.block_bytes_ = layout.bytes_per_block();
  DI_ASSIGN_OR_RETURN(memory.blocks_, Buffer::allocate(static_cast<uint64_t>(memory.block_bytes_ * blocks), of));
  DI_ASSIGN_OR_RETURN(memory.slots_,
                      Buffer::allocate(static_cast<uint64_t>(layout.bytes_per_sequence()) * state_slots, of));
  std::byte* ring = memory.slots_.data();
  for (int slot = 0; slot < state_slots; ++slot) {
    int64_t offset = 0;
    for (const CacheGroupSpec& group : layout.groups) {
      for (size_t i = 0; i < group.layers.size(); ++i) {
        if (group.is_ring()) {
          memory.rings_.push_back({ring, group.slots, group.record_bytes});
          ring += group.slots * group.record_bytes;
        } else if (slot == 0) {
          const int64_t rows = layout.tokens_per_block / group.tokens_per_record;
          memory.history_geometry_.push_back({nullptr, rows, group.record_bytes});
          memory.part_offsets_.push_back(offset);
          offset += rows * group.record_bytes;
        }
      }
    }
  }
  // So that saving and restoring cannot fail.
  memory.snapshot_.reserve(static_cast<size_t>(
      std::max(snapshot_blocks(layout, SnapshotKind::kFull), snapshot_blocks(layout, SnapshotKind::kEarly))));
  memory.rings_per_slot_ = state_slots == 0 ? 0 : static_cast<int64_t>(memory.rings_.size()) / state_slots;
  return memory;
}

int64_t CacheMemory::bytes() const {
  return static_cast<int64_t>(blocks_.size() + slots_.size());
}

void CacheMemory::give_back() {
  blocks_.discard();
  slots_.discard();
}

BlockList CacheMemory::history(int64_t h, std::span<std::byte* const> parts) const {
  BlockList list = history_geometry_[static_cast<size_t>(h)];
  list.blocks = parts.data();
  list.count = static_cast<int64_t>(parts.size());
  return list;
}

std::span<const Ring> CacheMemory::rings(int state_slot) const {
  return std::span(rings_).subspan(static_cast<size_t>(state_slot * rings_per_slot_),
                                   static_cast<size_t>(rings_per_slot_));
}

template <typename Copy>
void CacheMemory::for_each_window(int state_slot, int64_t position, SnapshotKind kind, std::span<const BlockId> blocks,
                                  Copy copy) {
  DI_CHECK(static_cast<int64_t>(blocks.size()) == snapshot_blocks(layout_, kind), "a snapshot's number of blocks");
  snapshot_.clear();
  for (const BlockId block : blocks) snapshot_.push_back(block_data(block));
  BlockBytes bytes(snapshot_, block_bytes_);
  const std::span<const Ring> rings = this->rings(state_slot);
  size_t next = 0;
  for (const CacheGroupSpec& group : layout_.groups) {
    if (!group.is_ring()) continue;
    for (size_t i = 0; i < group.layers.size(); ++i) {
      const Ring& ring = rings[next++];
      if (!in_snapshot(group, kind)) continue;
      // A short prefix has fewer rows; their places in the snapshot stay unused.
      const int64_t rows = std::min(position, snapshot_rows(group));
      ring_pieces(ring, position - rows, rows, [&](std::byte* records, int64_t count) {
        bytes.next(count,
                   [&](std::byte* place, int64_t offset, int64_t piece) { copy(place, records + offset, piece); });
      });
    }
  }
}

void CacheMemory::save(int state_slot, int64_t position, SnapshotKind kind, std::span<const BlockId> blocks) {
  for_each_window(state_slot, position, kind, blocks, [&](std::byte* place, const std::byte* records, int64_t count) {
    memory_->copy(place, records, static_cast<size_t>(count));
  });
}

void CacheMemory::restore(int state_slot, int64_t position, SnapshotKind kind, std::span<const BlockId> blocks) {
  for_each_window(state_slot, position, kind, blocks, [&](const std::byte* place, std::byte* records, int64_t count) {
    memory_->copy(records, place, static_cast<size_t>(count));
  });
}

}  // namespace deepinfer
