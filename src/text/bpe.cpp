#include "text/bpe.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace deepinfer {
namespace {

// Up to this many parts a scan of all pairs for every merge is faster than a heap.
constexpr std::size_t kFewParts = 128;
constexpr int kIndexBits = 7;  // an index below kFewParts
constexpr std::size_t kScanStep = 16;

// The lowest of `count` (a multiple of kScanStep) values rank << kIndexBits, with its index in the low bits; all stay
// below 2^31, so that a signed comparison will do.
std::int32_t lowest_pair(const std::int32_t* ranks, std::size_t count) {
  std::int32_t lowest = INT32_MAX;
  for (std::size_t i = 0; i < count; ++i) lowest = std::min(lowest, ranks[i] | static_cast<std::int32_t>(i));
  return lowest;
}

__attribute__((target("avx2"))) std::int32_t lowest_pair_avx2(const std::int32_t* ranks, std::size_t count) {
  __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i even = _mm256_set1_epi32(INT32_MAX), odd = even;
  for (std::size_t i = 0; i < count; i += kScanStep) {
    const __m256i next = _mm256_add_epi32(index, _mm256_set1_epi32(8));
    even =
        _mm256_min_epi32(even, _mm256_or_si256(index, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ranks + i))));
    odd = _mm256_min_epi32(odd,
                           _mm256_or_si256(next, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ranks + i + 8))));
    index = _mm256_add_epi32(next, _mm256_set1_epi32(8));
  }
  even = _mm256_min_epi32(even, odd);
  __m128i low = _mm_min_epi32(_mm256_castsi256_si128(even), _mm256_extracti128_si256(even, 1));
  low = _mm_min_epi32(low, _mm_shuffle_epi32(low, 0x4E));
  low = _mm_min_epi32(low, _mm_shuffle_epi32(low, 0xB1));
  return _mm_cvtsi128_si32(low);
}

using LowestPair = std::int32_t (*)(const std::int32_t*, std::size_t);
const LowestPair kLowestPair = __builtin_cpu_supports("avx2") ? &lowest_pair_avx2 : &lowest_pair;

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
  Scratch scratch;
  for (const std::string_view character : characters_.prepare(byte_ids, merges)) {
    const auto ids = merge_bytes(character, scratch);
    if (ids.size() == 1) characters_.add(character, ids[0]);
  }
}

std::span<const std::int32_t> Bpe::encode(std::string_view piece, Scratch& scratch) const {
  DI_CHECK(piece.size() <= kMaxPieceBytes, "piece too long");
  if (scratch.ids.size() < piece.size()) {
    scratch.ids.resize(piece.size());
    scratch.ranks.resize(piece.size());
  }
  const std::size_t count = characters_.start(piece, scratch.ids.data());
  if (count == 0) return merge_bytes(piece, scratch);
  for (std::size_t i = 0; i + 1 < count; ++i) scratch.ranks[i] = rank(scratch.ids[i], scratch.ids[i + 1]);
  scratch.work += count;
  return count <= kFewParts ? merge_few(count, scratch) : merge_many(count, scratch);
}

std::span<const std::int32_t> Bpe::merge_bytes(std::string_view piece, Scratch& scratch) const {
  const std::size_t count = piece.size();
  scratch.ids.resize(std::max(scratch.ids.size(), count));
  scratch.ranks.resize(std::max(scratch.ranks.size(), count));
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(piece[i])); };
  for (std::size_t i = 0; i < count; ++i) scratch.ids[i] = byte_ids_[byte(i)];
  for (std::size_t i = 0; i + 1 < count; ++i) scratch.ranks[i] = byte_pair_ranks_[byte(i) * 256 + byte(i + 1)];
  scratch.work += count;
  return count <= kFewParts ? merge_few(count, scratch) : merge_many(count, scratch);
}

// Parts stay at the place of their first byte and know their neighbours; a place whose part was merged away has no
// rule.
std::span<const std::int32_t> Bpe::merge_few(std::size_t parts, Scratch& scratch) const {
  const std::size_t count = std::min(parts, kFewParts);  // (equal: the callers see to it)
  const std::size_t scanned = (count + kScanStep - 1) / kScanStep * kScanStep;
  std::int32_t* const ids = scratch.ids.data();
  constexpr auto kNone = static_cast<std::int32_t>(kNoRank << kIndexBits);
  const auto shifted = [](std::uint32_t rule) { return static_cast<std::int32_t>(rule << kIndexBits); };
  std::array<std::int32_t, kFewParts> ranks;  // << kIndexBits: of the part at i and its right neighbour
  std::array<std::uint8_t, kFewParts + 1> next, previous;
  for (std::size_t i = 0; i < count; ++i) {
    next[i] = static_cast<std::uint8_t>(i + 1);
    previous[i + 1] = static_cast<std::uint8_t>(i);
  }
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = shifted(scratch.ranks[i]);
  for (std::size_t i = count - 1; i < scanned; ++i) ranks[i] = kNone;
  for (;;) {
    const std::int32_t lowest = kLowestPair(ranks.data(), scanned);
    scratch.work += scanned;
    const auto rule = static_cast<std::uint32_t>(lowest) >> kIndexBits;
    if (rule == kNoRank) break;
    const std::size_t i = static_cast<std::uint32_t>(lowest) & (kFewParts - 1);
    const std::size_t gone = next[i];
    const std::size_t right = next[gone];
    const std::int32_t id = ids[i] = merged_[rule];
    ranks[gone] = kNone;
    next[i] = static_cast<std::uint8_t>(right);
    previous[right] = static_cast<std::uint8_t>(i);
    ranks[i] = right < count ? shifted(rank(id, ids[right])) : kNone;
    if (i > 0) ranks[previous[i]] = shifted(rank(ids[previous[i]], id));
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; i = next[i]) ids[kept++] = ids[i];
  return {ids, kept};
}

// The parts form a linked list; the heap holds a pair's rank and place for every pair that was ever formed, and an
// entry counts only while the pair at its place still has that rank (parts only grow, so a pair never comes back).
std::span<const std::int32_t> Bpe::merge_many(std::size_t parts, Scratch& scratch) const {
  const auto count = static_cast<std::uint32_t>(parts);
  // (Clang 14 does not let the lambda below see structured bindings.)
  auto& ids = scratch.ids;
  auto& ranks = scratch.ranks;
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  auto& heap = scratch.heap;
  auto& work = scratch.work;
  ranks[count - 1] = kNoRank;
  next.resize(count);
  previous.resize(count);
  heap.clear();
  const auto entry = [](std::uint32_t rule, std::uint32_t at) { return static_cast<std::uint64_t>(rule) << 32 | at; };
  for (std::uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
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
