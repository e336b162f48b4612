// Prefixes as records of a KvStore.  A prefix is a record for each block of its tokens, named by the block's chain key,
// and a record for the snapshot at its end.  Used by the tier's worker and by whoever copies blocks to and from it.
//
// Keys find, content decides: each record holds the *lineage* of its block, the SHA-256 of the salt and all tokens up
// to its end, and a block's record also the block's tokens.  So a collision of keys, made on purpose or not, is a miss.
//
//   block record:     lineage, tokens (int32 each), the block's bytes
//   snapshot record:  lineage, position, exact_from, draft_context_from (int64 each), the snapshot's bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/tiers/kv_store.h"
#include "scheduling/cache/snapshot.h"
#include "tensor/sha256.h"

namespace deepinfer {

// Sizes of what records hold.
struct PrefixGeometry {
  int64_t tokens_per_block = 128;
  int64_t block_bytes = 0;
  int64_t full_snapshot_blocks = 0;
  int64_t early_snapshot_blocks = 0;

  int64_t snapshot_bytes(SnapshotKind kind) const {
    return block_bytes * (kind == SnapshotKind::kFull ? full_snapshot_blocks : early_snapshot_blocks);
  }
  // Of payloads, and where the cache's bytes begin in them.
  int64_t block_payload() const { return block_prefix() + block_bytes; }
  int64_t block_prefix() const { return kLineageBytes + 4 * tokens_per_block; }
  int64_t snapshot_payload(SnapshotKind kind) const { return kSnapshotPrefix + snapshot_bytes(kind); }

  static constexpr int64_t kLineageBytes = 32;
  static constexpr int64_t kSnapshotPrefix = kLineageBytes + 3 * 8;
};

// What names and proves the blocks of a sequence of tokens, one after the other.
class PrefixChain {
 public:
  PrefixChain(uint64_t salt, int64_t tokens_per_block);

  // The next block of these tokens.
  void next(std::span<const int32_t> tokens);
  ChainKey key() const { return key_; }
  const Sha256::Digest& lineage() const { return lineage_; }

 private:
  ChainKey key_;
  Sha256::Digest lineage_;
};

KvKey block_key(ChainKey chain);
KvKey snapshot_key(ChainKey chain, SnapshotKind kind);
// Of snapshots: smaller serves more.
KvNote snapshot_note(const SnapshotInfo& info);
SnapshotInfo snapshot_info(SnapshotKind kind, int64_t position, const KvNote& note);

// Fill in all of a payload but the cache's bytes.
void write_block_prefix(const Sha256::Digest& lineage, std::span<const int32_t> tokens, std::span<std::byte> payload);
void write_snapshot_prefix(const Sha256::Digest& lineage, const SnapshotInfo& info, std::span<std::byte> payload);
// Whether a payload is that of exactly this block or snapshot.
bool is_block(const Sha256::Digest& lineage, std::span<const int32_t> tokens, std::span<const std::byte> payload);
bool is_snapshot(const Sha256::Digest& lineage, const SnapshotInfo& info, std::span<const std::byte> payload);

}  // namespace deepinfer
