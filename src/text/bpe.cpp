#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/check.h"

namespace deepinfer {
namespace {

// Up to this many bytes a scan of all pairs for every merge is faster than a heap.
constexpr std::size_t kShortPiece = 128;
constexpr int kIndexBits = 7;  // an index below kShortPiece
constexpr std::uint32_t kNoPair = 0x7FFFFFFF;
constexpr std::size_t kScanStep = 16;

// The lowest of `count` (a multiple of kScanStep) values rank << kIndexBits, with its index in the low bits.
std::int32_t lowest_pair(const std::uint32_t* ranks, std::size_t count) {
  std::int32_t lowest = kNoPair;
  for (std::size_t i = 0; i < count; ++i) {
    lowest = std::min(lowest, static_cast<std::int32_t>(ranks[i] | static_cast<std::uint32_t>(i)));
  }
  return lowest;
}

}  // namespace

Bpe::Bpe(std::span<const std::int32_t, 256> byte_ids, std::span<const MergeRule> merges) {
  DI_CHECK(merges.size() <= kMaxMerges, "too many merge rules");
  std::copy(byte_ids.begin(), byte_ids.end(), byte_ids_.begin());
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 16));
  slot_mask_ = slots - 1;
  hash_shift_ = 64 - std::countr_zero(slots);
  pairs_.assign(slots, kFree);
  merged_.reserve(merges.size());
  for (const MergeRule& rule : merges) {
    DI_CHECK(rule.left < kMaxIds && rule.right < kMaxIds, "token id out of range");
    const std::uint64_t key = static_cast<std::uint64_t>(rule.left) << 20 | static_cast<std::uint64_t>(rule.right);
    std::uint64_t slot = key * kHashFactor >> hash_shift_;
    while (pairs_[slot] != kFree) slot = (slot + 1) & slot_mask_;
    pairs_[slot] = key << 24 | merged_.size();
    merged_.push_back(rule.merged);
  }
  byte_pair_ranks_.resize(256 * 256);
  for (std::size_t first = 0; first < 256; ++first) {
    for (std::size_t second = 0; second < 256; ++second) {
      byte_pair_ranks_[first * 256 + second] = rank(byte_ids_[first], byte_ids_[second]);
    }
  }
}

std::span<const std::int32_t> Bpe::encode(std::string_view piece, Scratch& scratch) const {
  return piece.size() <= kShortPiece ? encode_short(piece, scratch) : encode_long(piece, scratch);
}

std::span<const std::int32_t> Bpe::encode_short(std::string_view piece, Scratch& scratch) const {
  scratch.ids.resize(std::max(scratch.ids.size(), kShortPiece));
  scratch.ranks.resize(std::max(scratch.ranks.size(), kShortPiece + kScanStep));
  std::int32_t* const ids = scratch.ids.data();
  std::uint32_t* const ranks = scratch.ranks.data();  // ranks[i] << kIndexBits: of the pair (i, i + 1)
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(piece[i])); };
  std::size_t count = piece.size();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    ids[i] = byte_ids_[byte(i)];
    ranks[i] = byte_pair_ranks_[byte(i) * 256 + byte(i + 1)] << kIndexBits;
  }
  ids[count - 1] = byte_ids_[byte(count - 1)];
  std::fill_n(ranks + count - 1, kScanStep, kNoRank << kIndexBits);
  while (count > 1) {
    const std::size_t scanned = (count - 1 + kScanStep - 1) / kScanStep * kScanStep;
    const std::int32_t lowest = lowest_pair(ranks, scanned);
    const auto rule = static_cast<std::uint32_t>(lowest) >> kIndexBits;
    scratch.work += scanned;
    if (rule == kNoRank) break;
    const std::size_t i = static_cast<std::uint32_t>(lowest) & (kShortPiece - 1);
    ids[i] = merged_[rule];
    std::memmove(ids + i + 1, ids + i + 2, (count - i - 2) * sizeof(*ids));
    std::memmove(ranks + i + 1, ranks + i + 2, (count - i - 2) * sizeof(*ranks));  // moves one filler along
    --count;
    if (i > 0) ranks[i - 1] = rank(ids[i - 1], ids[i]) << kIndexBits;
    ranks[i] = i + 1 < count ? rank(ids[i], ids[i + 1]) << kIndexBits : kNoRank << kIndexBits;
  }
  return {ids, count};
}

// The parts form a linked list; the heap holds a pair's rank and place for every pair that was ever formed, and an
// entry counts only while the pair at its place still has that rank (parts only grow, so a pair never comes back).
std::span<const std::int32_t> Bpe::encode_long(std::string_view piece, Scratch& scratch) const {
  DI_CHECK(piece.size() <= kMaxPieceBytes, "piece too long");
  const auto count = static_cast<std::uint32_t>(piece.size());
  auto& [ids, ranks, next, previous, heap, work] = scratch;
  ids.resize(count);
  ranks.assign(count, kNoRank);
  next.resize(count);
  previous.resize(count);
  heap.clear();
  const auto entry = [](std::uint32_t rule, std::uint32_t at) { return static_cast<std::uint64_t>(rule) << 32 | at; };
  for (std::uint32_t i = 0; i < count; ++i) {
    ids[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
    next[i] = i + 1;
    previous[i] = i - 1;
    if (i + 1 == count) break;
    ranks[i] = byte_pair_ranks_[static_cast<std::size_t>(static_cast<unsigned char>(piece[i])) * 256 +
                                static_cast<unsigned char>(piece[i + 1])];
    if (ranks[i] != kNoRank) heap.push_back(entry(ranks[i], i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  work += count + heap.size();
  const auto set_pair = [&](std::uint32_t at) {
    ranks[at] = next[at] < count ? rank(ids[at], ids[next[at]]) : kNoRank;
    if (ranks[at] == kNoRank) return;
    heap.push_back(entry(ranks[at], at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
    work += static_cast<std::uint64_t>(std::bit_width(heap.size()));
  };
  while (!heap.empty()) {
    const std::uint64_t top = heap.front();
    work += static_cast<std::uint64_t>(std::bit_width(heap.size()));
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<std::uint32_t>(top);
    const auto rule = static_cast<std::uint32_t>(top >> 32);
    if (ranks[at] != rule) continue;
    const std::uint32_t gone = next[at];
    ids[at] = merged_[rule];
    ranks[gone] = kNoRank;
    next[at] = next[gone];
    if (next[at] < count) previous[next[at]] = at;
    set_pair(at);
    if (at > 0) set_pair(previous[at]);
  }
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i < count; i = next[i]) ids[kept++] = ids[i];
  return {ids.data(), kept};
}

}  // namespace deepinfer
