#include "scheduling/cache/cache_coordinator.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace deepinfer {
namespace {

const CacheGeometry& checked(const CacheGeometry& geometry) {
  DI_CHECK(geometry.tokens_per_block > 0, std::to_string(geometry.tokens_per_block) + " tokens in a block");
  DI_CHECK(geometry.full_snapshot_blocks >= 0, std::to_string(geometry.full_snapshot_blocks));
  DI_CHECK(geometry.early_snapshot_blocks >= 0, std::to_string(geometry.early_snapshot_blocks));
  DI_CHECK(geometry.early_snapshot_blocks == 0 ||
               (geometry.early_interval > 0 && geometry.early_interval % geometry.tokens_per_block == 0),
           "an early snapshot every " + std::to_string(geometry.early_interval) + " tokens");
  DI_CHECK(geometry.state_slots > 0, std::to_string(geometry.state_slots) + " state slots");
  return geometry;
}

}  // namespace

CacheCoordinator::CacheCoordinator(const CacheGeometry& geometry, const SnapshotRule& rule, ChainHash hash)
    : geometry_(checked(geometry)),
      rule_(rule),
      pool_(geometry.blocks),
      index_(pool_, geometry.tokens_per_block, hash) {
  for (int slot = geometry.state_slots - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

int64_t CacheCoordinator::blocks_for(int64_t tokens) const {
  return tokens / geometry_.tokens_per_block + (tokens % geometry_.tokens_per_block != 0);
}

bool CacheCoordinator::can_ever_fit(int64_t tokens) const {
  return blocks_for(tokens) <= pool_.size();
}

std::optional<CacheCoordinator::Admitted> CacheCoordinator::admit(uint64_t salt, std::span<const int32_t> known,
                                                                  int64_t tokens, int64_t logits_from, bool reuse,
                                                                  int64_t reserve, int64_t for_restore) {
  if (free_slots_.empty()) return std::nullopt;
  const int64_t known_blocks = static_cast<int64_t>(known.size()) / geometry_.tokens_per_block;
  // A request that waits for room comes here at every step: it shall not cost a match of its prompt each time.
  if (blocks_for(tokens) - known_blocks > available_blocks() - reserve) return std::nullopt;
  std::optional<PrefixHit> hit;
  if (reuse) hit = known_prefix(salt, known, logits_from);
  if (!hit) return admit_from(nullptr, tokens, reserve, 0);
  const bool waiting_helps = held_blocks() > 0;
  std::optional<Admitted> admitted = admit_from(&*hit, tokens, reserve, for_restore);
  if (!admitted && !waiting_helps) admitted = admit_from(nullptr, tokens, reserve, 0);
  return admitted;
}

std::optional<PrefixHit> CacheCoordinator::known_prefix(uint64_t salt, std::span<const int32_t> known,
                                                        int64_t logits_from) {
  const int64_t last = static_cast<int64_t>(known.size()) - 1;
  const int64_t wanted = logits_from < 0 ? last : logits_from;
  return index_.match(salt, known, std::min(wanted, last),
                      [&](const SnapshotInfo& snapshot) { return rule_.usable(snapshot, wanted); });
}

std::optional<CacheCoordinator::Admitted> CacheCoordinator::admit_from(const PrefixHit* hit, int64_t tokens,
                                                                       int64_t reserve, int64_t for_restore) {
  Admitted admitted;
  if (hit != nullptr) {
    admitted.blocks.table_ = hit->blocks;
    admitted.restore = SnapshotPlace{.info = hit->snapshot, .blocks = hit->snapshot_blocks};
    for (const BlockId block : hit->blocks) pool_.hold(block);
    for (const BlockId block : hit->snapshot_blocks) pool_.hold(block);
  }
  const int64_t more = std::max<int64_t>(blocks_for(tokens) - static_cast<int64_t>(admitted.blocks.table_.size()), 0);
  const int64_t borrowed =
      admitted.restore ? std::min(static_cast<int64_t>(admitted.restore->blocks.size()), for_restore) : 0;
  if (more > available_blocks() || more > available_blocks() + borrowed - reserve) {
    for (const BlockId block : admitted.blocks.table_) pool_.release(block);
    if (admitted.restore) release_snapshot(*std::move(admitted.restore));
    return std::nullopt;
  }
  const bool taken = take(admitted.blocks.table_, more);
  DI_CHECK(taken, std::to_string(more) + " blocks of " + std::to_string(available_blocks()) + " available");
  admitted.blocks.state_slot_ = free_slots_.back();
  free_slots_.pop_back();
  return admitted;
}

bool CacheCoordinator::take(std::vector<BlockId>& list, int64_t count) {
  if (count <= 0) return true;
  if (!index_.make_room(count)) return false;
  list.resize(list.size() + static_cast<size_t>(count));
  return pool_.take(std::span(list).last(static_cast<size_t>(count)));
}

bool CacheCoordinator::extend(SequenceBlocks& sequence, int64_t tokens) {
  return take(sequence.table_, blocks_for(tokens) - static_cast<int64_t>(sequence.table_.size()));
}

void CacheCoordinator::release(SequenceBlocks&& sequence) {
  const SequenceBlocks gone = std::move(sequence);
  for (const BlockId block : gone.table_) pool_.release(block);
  if (gone.state_slot_ >= 0) free_slots_.push_back(gone.state_slot_);
}

// 0: none are kept.
int64_t CacheCoordinator::snapshot_blocks(SnapshotKind kind) const {
  if (geometry_.full_snapshot_blocks == 0) return 0;
  return kind == SnapshotKind::kFull ? geometry_.full_snapshot_blocks : geometry_.early_snapshot_blocks;
}

std::optional<SnapshotPlace> CacheCoordinator::place_snapshot(const SnapshotInfo& info) {
  const int64_t count = snapshot_blocks(info.kind);
  if (count == 0) return std::nullopt;
  SnapshotPlace place{.info = info, .blocks = {}};
  if (!take(place.blocks, count)) return std::nullopt;
  return place;
}

void CacheCoordinator::release_snapshot(SnapshotPlace&& place) {
  for (const BlockId block : std::exchange(place.blocks, {})) pool_.release(block);
}

void CacheCoordinator::publish(uint64_t salt, std::span<const int32_t> tokens, const SequenceBlocks& sequence,
                               SnapshotPlace&& place) {
  publish_ahead(salt, tokens, sequence, place);
  release_snapshot(std::move(place));  // idle if the index has taken it, else free
}

void CacheCoordinator::publish_ahead(uint64_t salt, std::span<const int32_t> tokens, const SequenceBlocks& sequence,
                                     const SnapshotPlace& place) {
  index_.publish(salt, tokens, sequence.table_, place.info, place.blocks);
}

int64_t CacheCoordinator::cached_prefix(uint64_t salt, std::span<const int32_t> known, int64_t logits_from) const {
  const int64_t last = static_cast<int64_t>(known.size()) - 1;
  const int64_t wanted = logits_from < 0 ? last : logits_from;
  return index_.usable_prefix(salt, known, std::min(wanted, last),
                              [&](const SnapshotInfo& snapshot) { return rule_.usable(snapshot, wanted); });
}

bool CacheCoordinator::adopt(uint64_t salt, std::span<const int32_t> tokens, const SnapshotInfo& info, int64_t reserve,
                             FunctionRef<void(std::span<const BlockId>, std::span<const BlockId>)> fill) {
  const int64_t snapshot = snapshot_blocks(info.kind);
  const int64_t history = info.position / geometry_.tokens_per_block;
  std::vector<BlockId> blocks;
  if (snapshot == 0 || history + snapshot > available_blocks() - reserve || !take(blocks, history + snapshot))
    return false;
  const auto below = std::span<const BlockId>(blocks).first(static_cast<size_t>(history));
  const auto of_snapshot = std::span<const BlockId>(blocks).subspan(static_cast<size_t>(history));
  fill(below, of_snapshot);
  index_.publish(salt, tokens, below, info, of_snapshot);
  for (const BlockId block : blocks) pool_.release(block);  // idle, or free where the index had its twin
  return true;
}

void CacheCoordinator::check_integrity() const {
  pool_.check_integrity();
  index_.check_integrity();
  check_state_slots();
}

bool CacheCoordinator::check_part(int64_t blocks) {
  check_state_slots();
  return index_.check_part(blocks);
}

void CacheCoordinator::check_state_slots() const {
  std::vector<uint8_t> free(static_cast<size_t>(geometry_.state_slots));
  for (const int slot : free_slots_) {
    DI_CHECK(slot >= 0 && slot < geometry_.state_slots && free[static_cast<size_t>(slot)] == 0,
             "state slot " + std::to_string(slot));
    free[static_cast<size_t>(slot)] = 1;
  }
}

}  // namespace deepinfer
