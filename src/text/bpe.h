// Bpe: turns the bytes of one piece into token ids by the merge rules of a tokenizer.json.
// Owned by Tokenizer; immutable and thread-safe, each thread brings its own Scratch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/character_start.h"

namespace deepinfer {

// `left` followed by `right` becomes `merged`; a rule's rank is its place in the list, lower goes first.
struct MergeRule {
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
};

class Bpe {
 public:
  // Bounds that the packed tables rely on; read_tokenizer_json() enforces them.
  static constexpr std::int32_t kMaxIds = 1 << 20;          // ids are below
  static constexpr std::size_t kMaxMerges = (1 << 24) - 2;  // rules at most
  static constexpr std::size_t kMaxPieceBytes = 64 << 20;   // bytes of one piece at most

  // byte_ids: the token of each single byte.  The pairs (left, right) of `merges` are unique.
  Bpe(std::span<const std::int32_t, 256> byte_ids, std::span<const MergeRule> merges);

  // What a piece's encoding works in, kept from piece to piece.
  struct Scratch {
    std::vector<std::int32_t> ids;
    std::vector<std::uint32_t> ranks;
    std::vector<std::uint32_t> next;
    std::vector<std::uint32_t> previous;
    std::vector<std::uint64_t> heap;
    // Elements that were looked at or moved so far; for a piece of n bytes at most a constant times n log n.
    std::uint64_t work = 0;
  };

  // The piece's tokens; valid until the next call with this scratch.  1 <= piece.size() <= kMaxPieceBytes.
  // Always the leftmost of the pairs with the lowest rank is merged, until no rule applies.
  std::span<const std::int32_t> encode(std::string_view piece, Scratch& scratch) const;

 private:
  // Rank of a pair's rule, or kNoRank.
  std::uint32_t rank(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = static_cast<std::uint64_t>(left) << 20 | static_cast<std::uint64_t>(right);
    for (std::uint64_t slot = key * kHashFactor >> hash_shift_;; slot = (slot + 1) & slot_mask_) {
      const std::uint64_t entry = pairs_[slot];
      if (entry >> 24 == key || entry == kFree) return static_cast<std::uint32_t>(entry & kNoRank);
    }
  }
  // Both merge scratch.ids[0, count), with scratch.ranks[i] the rank of the pair (i, i + 1).
  std::span<const std::int32_t> merge_few(std::size_t count, Scratch& scratch) const;
  std::span<const std::int32_t> merge_many(std::size_t count, Scratch& scratch) const;
  std::span<const std::int32_t> merge_bytes(std::string_view piece, Scratch& scratch) const;

  static constexpr std::uint32_t kNoRank = (1 << 24) - 1;
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<std::uint32_t> byte_pair_ranks_;  // [256 * first byte + second byte]
  std::vector<std::int32_t> merged_;            // [rank]
  CharacterStart characters_;
  std::vector<std::uint64_t> pairs_;  // open addressing; left 20 bits, right 20 bits, rank 24 bits
  std::uint64_t slot_mask_ = 0;
  int hash_shift_ = 0;
};

}  // namespace deepinfer
