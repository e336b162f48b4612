// PieceCache: remembers the tokens of short pieces, so that a word is merged once and looked up ever after.
// One per encoding thread, in tokenizer.cpp.  What it holds never changes a result.  (Longer pieces seldom come back:
// caching them made Chinese text slower.)
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace deepinfer {

class PieceCache {
 public:
  static constexpr std::size_t kMaxBytes = 15;  // of a piece
  static constexpr std::size_t kMaxIds = 3;     // of its encoding

  struct Key {
    std::uint64_t low, high;  // the bytes, zeros behind them; the length in the highest byte
    bool operator==(const Key& other) const { return ((low ^ other.low) | (high ^ other.high)) == 0; }
  };
  struct Entry {
    Key key;
    std::array<std::int32_t, kMaxIds> ids;
    std::uint32_t count;
  };

  PieceCache() : sets_(static_cast<Set*>(std::calloc(kSets, sizeof(Set)))) {
    if (sets_ == nullptr) throw std::bad_alloc();
  }

  // 1 <= length <= kMaxBytes.  `end` bounds what may be read (the piece's text goes on up to there).
  static Key key(const char* piece, std::size_t length, const char* end) {
    __m128i bytes;
    if (end - piece >= 16) [[likely]] {
      bytes = _mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(piece)),
                            _mm_loadu_si128(reinterpret_cast<const __m128i*>(kMask.data() + 16 - length)));
    } else {
      alignas(16) char padded[16] = {};
      std::memcpy(padded, piece, length);
      bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(padded));
    }
    const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(bytes));
    const auto high = static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(bytes, bytes)));
    return {low, high | static_cast<std::uint64_t>(length) << 56};
  }

  // The entry of `key`, or null.
  const Entry* find(const Key& key) const {
    const Set& set = sets_.get()[set_of(key)];
    if (set[0].key == key) return &set[0];
    if (set[1].key == key) return &set[1];
    return nullptr;
  }

  // ids.size() <= kMaxIds.  The older of two pieces that share a place goes.
  void insert(const Key& key, std::span<const std::int32_t> ids) {
    Set& set = sets_.get()[set_of(key)];
    set[1] = set[0];
    set[0] = {key, {}, static_cast<std::uint32_t>(ids.size())};
    std::copy(ids.begin(), ids.end(), set[0].ids.begin());
  }

 private:
  using Set = std::array<Entry, 2>;
  struct Free {
    void operator()(Set* sets) const { std::free(sets); }
  };

  static std::size_t set_of(const Key& key) {
    const std::uint64_t mixed =
        (key.low ^ std::rotl(key.high, 32)) * 0x9E3779B97F4A7C15 ^ key.high * 0xC2B2AE3D27D4EB4F;
    return mixed * 0x9E3779B97F4A7C15 >> (64 - kSetBits);
  }

  static constexpr int kSetBits = 16;  // 4 MiB
  static constexpr std::size_t kSets = std::size_t{1} << kSetBits;
  static constexpr auto kMask = [] {
    std::array<unsigned char, 32> mask{};
    for (std::size_t i = 0; i < 16; ++i) mask[i] = 0xFF;
    return mask;
  }();

  std::unique_ptr<Set, Free> sets_;  // [kSets], zero at first: memory that no piece falls on is never touched
};

}  // namespace deepinfer
