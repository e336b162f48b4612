// Weight decoding of the amx path: exact bf16 with the scale applied, stored as rows of A tiles.  Kernel sources only.
//
// A tile holds kTileRows weight rows x 32 columns.  A decoded range is [row / 16][tile along K][row % 16][32 columns];
// within a step of columns the decoder fixes which column stands where, and tile_pack.cpp orders activations alike.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backends/cpu/products/product_kernels.h"

#define DI_TILE static inline __attribute__((always_inline))
#define DI_TILE_MEMBER __attribute__((always_inline)) inline

namespace deepinfer::cpu::amx {

inline constexpr int64_t kTileColumns = 32;
inline constexpr int64_t kTileElements = kTileRows * kTileColumns;
inline constexpr int64_t kMaxRun = 256;  // most columns of a range; a multiple of every step
inline constexpr int64_t kRunTiles = kMaxRun / kTileColumns;
inline constexpr int64_t kRangeOutputs = 32;  // most weight rows of a range

DI_TILE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Columns that a decoder turns into whole tiles at once.
constexpr int64_t step_columns(WeightFormat format) {
  return format == WeightFormat::kFp8 ? 64 : 32;
}

// The bf16 bits of the e4m3 numbers below 2^-6, times 2^120, as lower and upper bytes; by sign and fraction.
struct Fp8Tables {
  alignas(64) uint8_t low[64];
  uint8_t high[64];
};
extern const Fp8Tables kFp8Tables;

// Codes become values with a larger exponent and the decoder subtracts what is too much, less the scale, saturating:
// zeros stay zero without a mask.  Both bytes of a value times 2^120 are bits of the code and constant ones, as
// 127 - 7 + 120 is 240, unless the code is zero or subnormal: these few are looked up.  Moving bits takes another port
// than looking up.
struct Fp8Decoder {
  __m512i low, high;

  static DI_TILE_MEMBER Fp8Decoder load() {
    return {_mm512_load_si512(kFp8Tables.low), _mm512_load_si512(kFp8Tables.high)};
  }

  // What the values of each step of a run lose of their exponent: 247 - scale, for the columns 0-31 of the step in the
  // lanes 0 and 1, for 32-63 in 2 and 3.  Scales count as no less than 2^-117 and no more than 2^120.
  static DI_TILE_MEMBER void surplus(const uint8_t* scale, int64_t groups, __m512i* of_step) {
    const __m128i scales = _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << groups) - 1), scale);
    const __m128i exponents = _mm_min_epu8(_mm_subs_epu8(_mm_set1_epi8(static_cast<int8_t>(247)), scales),
                                           _mm_set1_epi8(static_cast<int8_t>(237)));
    const __m512i words = _mm512_castsi256_si512(_mm256_slli_epi16(_mm256_cvtepu8_epi16(exponents), 7));
    __m512i pair = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(1), 1);
    for (int64_t g = 0; g < groups; g += 2, pair = _mm512_add_epi16(pair, _mm512_set1_epi16(2))) {
      *of_step++ = _mm512_permutexvar_epi16(pair, words);
    }
  }

  // 64 codes as the rows of two tiles: columns 0-7 16-23 32-39 48-55, columns 8-15 24-31 40-47 56-63.
  DI_TILE_MEMBER void decode(__m512i codes, __m512i surplus, uint16_t* to) const {
    // Bit matrices; the rows of the upper output bits are the lower bytes.
    const __m512i fraction_up = _mm512_set1_epi64(0x0000000001020408);              // seeeemmm: emmm0000
    const __m512i exponent_down = _mm512_set1_epi64(0x1020400000000080);            // s0000eee
    const __m512i sign_and_fraction = _mm512_set1_epi64(0x0102048000000000);        // 0000smmm
    const __mmask64 small = _mm512_testn_epi8_mask(codes, _mm512_set1_epi8(0x78));  // zero and subnormal
    const __m512i place = _mm512_gf2p8affine_epi64_epi8(codes, sign_and_fraction, 0);
    const __m512i lower =
        _mm512_mask_permutexvar_epi8(_mm512_gf2p8affine_epi64_epi8(codes, fraction_up, 0), small, place, low);
    const __m512i upper =
        _mm512_mask_permutexvar_epi8(_mm512_gf2p8affine_epi64_epi8(codes, exponent_down, 0x78), small, place, high);
    _mm512_store_si512(to, _mm512_subs_epu16(_mm512_unpacklo_epi8(lower, upper), surplus));
    _mm512_store_si512(to + kTileElements, _mm512_subs_epu16(_mm512_unpackhi_epi8(lower, upper), surplus));
  }
};

// For each scale the bf16 bits of the 16 values times it, twice.  Scales count as no less than 2^-125 and no more than
// 2^125.
struct Fp4Tables {
  alignas(64) uint16_t of_scale[256][32];
};
extern const Fp4Tables kFp4Tables;

struct Fp4Decoder {
  __m512i shifts, fields;

  static DI_TILE_MEMBER Fp4Decoder load() {
    const auto lanes = [](__m128i a, __m128i b, __m128i c, __m128i d) {
      return _mm512_inserti64x4(_mm512_zextsi256_si512(_mm256_set_m128i(b, a)), _mm256_set_m128i(d, c), 1);
    };
    const __m128i word = _mm_set1_epi64x(0x0030302020101000);  // byte 2w: the first bit of word w
    const auto nibble = [word](char j) { return _mm_add_epi8(word, _mm_set1_epi8(static_cast<char>(4 * j))); };
    return {lanes(_mm_set1_epi16(0), _mm_set1_epi16(4), _mm_set1_epi16(8), _mm_set1_epi16(12)),
            lanes(nibble(0), nibble(1), nibble(2), nibble(3))};
  }

  // The row of a tile: 16 bytes of codes, column 4w + j as word w of lane j.  Words are looked up by their low five
  // bits. Shifting words and choosing fields give the same; they take turns, as they need different ports.
  template <bool kShift>
  DI_TILE_MEMBER __m512i decode(const uint8_t* codes, uint8_t scale) const {
    const __m512i words = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    const __m512i moved = kShift ? _mm512_srlv_epi16(words, shifts) : _mm512_multishift_epi64_epi8(fields, words);
    return _mm512_permutexvar_epi16(moved, _mm512_load_si512(kFp4Tables.of_scale[scale]));
  }
};

// A run of columns [begin, end) of weight rows [first, first + rows) as A tiles; end may lie in the padding behind k,
// which decodes to zero.  first is a multiple of 32 and rows at most kRangeOutputs.  ahead: where the range decoded
// next lies, in columns from this one's (a row further is k columns); it is prefetched meanwhile.
struct DecodeRange {
  int64_t first, rows;
  int64_t begin, end;
  int64_t ahead;
};

// Decodes a range tile column by tile column, so that it can stand between tile products.  The places of rows behind
// the range's keep what they held: it ends in sums that nobody reads.
template <WeightFormat kFormat>
class RangeDecoder {
 public:
  static constexpr int64_t kStepTiles = step_columns(kFormat) / kTileColumns;

  // surplus: kRunTiles / 2 vectors, for FP8.  It lies outside so that the compiler can keep the rest in registers; for
  // the same reason everything here is inlined.  No rows until start().
  DI_TILE_MEMBER explicit RangeDecoder(__m512i* surplus) : surplus_(surplus) {
    if constexpr (kFormat == WeightFormat::kFp8) fp8_ = Fp8Decoder::load();
    if constexpr (kFormat == WeightFormat::kFp4) fp4_ = Fp4Decoder::load();
  }

  DI_TILE_MEMBER void start(const WeightBlock& weight, const DecodeRange& range, uint16_t* tiles) {
    rows_ = range.rows;
    tiles_ = tiles;
    columns_ = range.end - range.begin;
    known_ = least(range.end, weight.k) - range.begin;
    row_bytes_ = bytes(weight.k);
    source_ = weight.data + range.first * row_bytes_ + bytes(range.begin);
    ahead_ = source_ + bytes(range.ahead);
    if constexpr (kFormat == WeightFormat::kFp8) {
      Fp8Decoder::surplus(weight.scale + range.first / 32 * (weight.k / 32) + range.begin / 32, known_ / 32, surplus_);
    } else if constexpr (kFormat == WeightFormat::kFp4) {
      row_scales_ = weight.k / 32;
      scale_ = weight.scale + range.first * row_scales_ + range.begin / 32;
      if (range.begin == 0) {  // the scales of the next rows, a short stream of their own
        for (int64_t i = 0; i < kRangeOutputs * row_scales_; i += 64) {
          _mm_prefetch(reinterpret_cast<const char*>(scale_ + kRangeOutputs * row_scales_ + i), _MM_HINT_T1);
        }
      }
    }
  }

  DI_TILE_MEMBER int64_t tiles() const { return columns_ / kTileColumns; }

  // Tile t with the other tiles of its step, if there is such a tile and it is the last of its step.
  DI_TILE_MEMBER void decode(int64_t t) const {
    if ((t + 1) % kStepTiles != 0 || t >= tiles()) return;
    const int64_t column = (t + 1 - kStepTiles) * kTileColumns;
    const bool whole = column + kStepTiles * kTileColumns <= known_;
    int64_t rows;
    for (int64_t row = 0; row < rows_; row += rows) {
      rows = least(rows_ - row, kTileRows);
      const uint8_t* codes = source_ + row * row_bytes_ + bytes(column);
      uint16_t* to = tiles_ + row / kTileRows * kRunTiles * kTileElements + column * kTileRows;
      if (whole && rows == kTileRows) {  // unrolled
        decode_rows(codes, t, row, kTileRows, to);
      } else if (whole) {
        decode_rows(codes, t, row, rows, to);
      } else if constexpr (kFormat == WeightFormat::kFp8) {
        for (int64_t r = 0; r < rows; ++r) {
          const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + r * row_bytes_));
          fp8_.decode(_mm512_zextsi256_si512(half), surplus_[t / 2], to + r * kTileColumns);
        }
      }
    }
  }

  // Tiles [first, tiles()) of all rows.
  DI_TILE_MEMBER void decode_from(int64_t first) const {
    for (int64_t t = first; t < tiles(); ++t) decode(t);
  }

  // The next row of the range to be decoded next.  Whole rows in order: memory gives neighbours faster.
  template <int kHint>
  DI_TILE_MEMBER void prefetch_row() {
    for (int64_t i = 0; i < bytes(columns_); i += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(ahead_ + i), static_cast<decltype(_MM_HINT_T0)>(kHint));
    }
    ahead_ += row_bytes_;
  }

 private:
  static constexpr DI_TILE_MEMBER int64_t bytes(int64_t columns) {
    return kFormat == WeightFormat::kBf16 ? 2 * columns : kFormat == WeightFormat::kFp4 ? columns / 2 : columns;
  }

  DI_TILE_MEMBER void decode_rows(const uint8_t* codes, int64_t t, int64_t first, int64_t rows, uint16_t* to) const {
    if constexpr (kFormat == WeightFormat::kFp8) {
      const __m512i surplus = surplus_[t / 2];
      for (int64_t r = 0; r < rows; ++r, codes += row_bytes_, to += kTileColumns) {
        fp8_.decode(_mm512_loadu_si512(codes), surplus, to);
      }
    } else if constexpr (kFormat == WeightFormat::kFp4) {
      const uint8_t* scale = scale_ + first * row_scales_ + t;
      for (int64_t r = 0; r < rows; ++r, codes += row_bytes_, scale += row_scales_, to += kTileColumns) {
        _mm512_store_si512(to, r % 2 == 0 ? fp4_.decode<true>(codes, *scale) : fp4_.decode<false>(codes, *scale));
      }
    } else {
      for (int64_t r = 0; r < rows; ++r, codes += row_bytes_, to += kTileColumns) {
        _mm512_store_si512(to, _mm512_loadu_si512(codes));
      }
    }
  }

  Fp8Decoder fp8_;
  Fp4Decoder fp4_;
  __m512i* surplus_;
  int64_t rows_ = 0, columns_ = 0, known_ = 0;  // of the range; of its columns those in the weight
  int64_t row_bytes_ = 0, row_scales_ = 0;
  const uint8_t* source_ = nullptr;
  const uint8_t* scale_ = nullptr;
  const uint8_t* ahead_ = nullptr;
  uint16_t* tiles_ = nullptr;
};

}  // namespace deepinfer::cpu::amx
