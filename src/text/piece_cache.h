// PieceCache: remembers the tokens of short pieces, so that a word is merged once and looked up ever after.
// One per encoding thread (EncodeContext in tokenizer.cpp).  What it holds never changes a result.
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
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::int32_t ids[kMaxIds];
    std::uint32_t count;
  };

  PieceCache() : lines_(static_cast<Line*>(std::calloc(kLines, sizeof(Line)))) {
    if (lines_ == nullptr) throw std::bad_alloc();
  }

  // `end` bounds what may be read (the piece's text goes on up to there).
  static Key key(const char* piece, std::size_t length, const char* end) {
    __m128i bytes;
    if (end - piece >= 16) [[likely]] {
      bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(piece));
      bytes = _mm_and_si128(bytes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(kMask.data() + 16 - length)));
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
    const Line& line = lines_.get()[line_of(key)];
    if (line.entries[0].key == key) return &line.entries[0];
    if (line.entries[1].key == key) return &line.entries[1];
    return nullptr;
  }

  // ids.size() <= kMaxIds.
  void insert(const Key& key, std::span<const std::int32_t> ids) {
    Line& line = lines_.get()[line_of(key)];
    line.entries[1] = line.entries[0];
    Entry& entry = line.entries[0];
    entry = {key, {0, 0, 0}, static_cast<std::uint32_t>(ids.size())};
    std::copy(ids.begin(), ids.end(), entry.ids);
  }

 private:
  struct Line {
    Entry entries[2];
  };
  struct Free {
    void operator()(Line* lines) const { std::free(lines); }
  };

  static std::size_t line_of(const Key& key) {
    const std::uint64_t mixed =
        (key.low ^ std::rotl(key.high, 32)) * 0x9E3779B97F4A7C15 ^ key.high * 0xC2B2AE3D27D4EB4F;
    return mixed * 0x9E3779B97F4A7C15 >> (64 - kLineBits);
  }

  static constexpr int kLineBits = 15;
  static constexpr std::size_t kLines = std::size_t{1} << kLineBits;
  static constexpr auto kMask = [] {
    std::array<unsigned char, 32> mask{};
    for (std::size_t i = 0; i < 16; ++i) mask[i] = 0xFF;
    return mask;
  }();

  std::unique_ptr<Line, Free> lines_;  // [kLines], zero at first: pages that no piece falls on cost nothing
};

}  // namespace deepinfer
