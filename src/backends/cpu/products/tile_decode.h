// Weight decoding of the amx path: exact bf16 with the scale applied, stored as rows of A tiles.  Kernel sources only.
//
// A tile holds kTileRows weight rows x 32 columns.  A decoded block is [row / 16][tile along K][row % 16][32 columns];
// within a step of columns the decoder fixes which column stands where, and tile_pack.cpp orders activations alike.
// The tables hold values with a larger exponent and the decoder subtracts what is too much, less the scale, saturating:
// zeros stay zero without a mask.
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

// Columns that a decoder turns into whole tiles at once.
DI_TILE int64_t step_columns(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFp8:
      return 64;
    case WeightFormat::kFp4:
      return 128;
    case WeightFormat::kBf16:
      return 32;
  }
  return 32;
}

// The bf16 bits of every e4m3 magnitude times 2^120, as lower and upper bytes.
struct Fp8Tables {
  alignas(64) uint8_t low[128];
  uint8_t high[128];
};
extern const Fp8Tables kFp8Tables;

struct Fp8Decoder {
  __m512i low0, low1, high0, high1;

  static DI_TILE_MEMBER Fp8Decoder load() {
    return {_mm512_load_si512(kFp8Tables.low), _mm512_load_si512(kFp8Tables.low + 64),
            _mm512_load_si512(kFp8Tables.high), _mm512_load_si512(kFp8Tables.high + 64)};
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
    const __m512i sign = _mm512_set1_epi8(static_cast<int8_t>(0x80));
    codes = _mm512_maskz_mov_epi8(_mm512_cmpneq_epi8_mask(codes, sign), codes);  // -0 is 0: its sign alone would wrap
    const __m512i low = _mm512_permutex2var_epi8(low0, codes, low1);
    const __m512i magnitude = _mm512_permutex2var_epi8(high0, codes, high1);
    const __m512i high = _mm512_ternarylogic_epi32(magnitude, codes, sign, 0xF8);  // magnitude | (codes & sign)
    _mm512_store_si512(to, _mm512_subs_epu16(_mm512_unpacklo_epi8(low, high), surplus));
    _mm512_store_si512(to + kTileElements, _mm512_subs_epu16(_mm512_unpackhi_epi8(low, high), surplus));
  }
};

struct Fp4Decoder {
  __m512i table, spread;

  static DI_TILE_MEMBER Fp4Decoder load() {
    constexpr int kMore = 126 << 7;  // the table's values carry 2^126 too much
    const __m256i values =
        _mm256_setr_epi16(0, 0x3F00 + kMore, 0x3F80 + kMore, 0x3FC0 + kMore, 0x4000 + kMore, 0x4040 + kMore,
                          0x4080 + kMore, 0x40C0 + kMore, 0, static_cast<int16_t>(0xBF00 + kMore),
                          static_cast<int16_t>(0xBF80 + kMore), static_cast<int16_t>(0xBFC0 + kMore),
                          static_cast<int16_t>(0xC000 + kMore), static_cast<int16_t>(0xC040 + kMore),
                          static_cast<int16_t>(0xC080 + kMore), static_cast<int16_t>(0xC0C0 + kMore));
    const __m512i lane_of_scale =
        _mm512_set_epi64(0x0380038003800380, 0x0380038003800380, 0x0280028002800280, 0x0280028002800280,
                         0x0180018001800180, 0x0180018001800180, 0x0080008000800080, 0x0080008000800080);
    return {_mm512_broadcast_i64x4(values), lane_of_scale};
  }

  // 128 codes as the rows of four tiles: tile j holds the columns 4w + j.  Scale g belongs to the 128-bit lane g of
  // words. Scales count as no less than 2^-125.
  DI_TILE_MEMBER void decode(__m512i codes, uint32_t scales, uint16_t* to) const {
    const __m512i exponents =
        _mm512_srli_epi16(_mm512_shuffle_epi8(_mm512_set1_epi32(static_cast<int>(scales)), spread), 1);
    const __m512i surplus =
        _mm512_min_epu16(_mm512_sub_epi16(_mm512_set1_epi16(253 << 7), exponents), _mm512_set1_epi16(251 << 7));
    const __m512i v0 = _mm512_permutexvar_epi16(codes, table);
    const __m512i v1 = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table);
    const __m512i v2 = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table);
    const __m512i v3 = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table);
    _mm512_store_si512(to, _mm512_subs_epu16(v0, surplus));
    _mm512_store_si512(to + kTileElements, _mm512_subs_epu16(v1, surplus));
    _mm512_store_si512(to + 2 * kTileElements, _mm512_subs_epu16(v2, surplus));
    _mm512_store_si512(to + 3 * kTileElements, _mm512_subs_epu16(v3, surplus));
  }
};

// A run of columns [begin, end) of weight rows [first, first + rows) as A tiles; end may lie in the padding behind k,
// which decodes to zero.  first is a multiple of 32 and rows at most 32.  ahead: where the range decoded next lies, in
// columns from this one's (a row further is k columns); it is prefetched meanwhile.
inline constexpr int64_t kRangeOutputs = 32;
struct DecodeRange {
  int64_t first, rows;
  int64_t begin, end;
  int64_t ahead;
};

// Decodes a range step by step, so that its steps can stand between tile products: decoding keeps the vector ports
// busy, tile products the tile unit, and the core does both at once.
template <WeightFormat kFormat>
class RangeDecoder {
 public:
  static constexpr int64_t kStep = kFormat == WeightFormat::kFp8 ? 64 : kFormat == WeightFormat::kFp4 ? 128 : 32;
  static constexpr int64_t kCodesPerByte = kFormat == WeightFormat::kFp4 ? 2 : 1;
  static constexpr int64_t kBytesPerCode = kFormat == WeightFormat::kBf16 ? 2 : 1;

  // surplus: kMaxRun / 64 vectors, for FP8.  It lies outside so that the compiler can keep the rest in registers; for
  // the same reason everything here is inlined.  Nothing to decode until start().
  DI_TILE_MEMBER explicit RangeDecoder(__m512i* surplus) : surplus_(surplus) {
    if constexpr (kFormat == WeightFormat::kFp8) fp8_ = Fp8Decoder::load();
    if constexpr (kFormat == WeightFormat::kFp4) fp4_ = Fp4Decoder::load();
  }

  // Rows from range.rows up to the next multiple of 16 become zero at once.
  DI_TILE_MEMBER void start(const WeightBlock& weight, const DecodeRange& range, uint16_t* tiles) {
    rows_left_ = range.rows;
    row_ = 0;
    tiles_ = tiles;
    columns_ = range.end - range.begin;
    known_ = (range.end < weight.k ? range.end : weight.k) - range.begin;
    row_bytes_ = bytes(weight.k);
    ahead_ = bytes(range.ahead);
    source_ = weight.data + range.first * row_bytes_ + bytes(range.begin);
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
    for (int64_t r = range.rows; r % kTileRows != 0; ++r) {
      for (int64_t c = 0; c < columns_; c += kTileColumns)
        _mm512_store_si512(place(r) + c * kTileRows, _mm512_setzero_si512());
    }
    column_ = 0;
    to_ = place(0);
  }

  DI_TILE_MEMBER int64_t steps() const { return rows_left_ * ((columns_ + kStep - 1) / kStep); }

  DI_TILE_MEMBER void finish() {
    while (rows_left_ > 0) step();
    __asm__ volatile("" ::: "memory");  // tile loads follow, of which the compiler does not know what they read
  }

  // One step of one row; nothing once all are done.
  DI_TILE_MEMBER void step() {
    if (rows_left_ == 0) return;
    const uint8_t* codes = source_ + bytes(column_);
    _mm_prefetch(reinterpret_cast<const char*>(codes + ahead_), _MM_HINT_T0);
    if (column_ + kStep <= known_) [[likely]] {
      whole_step(codes);
    } else {
      part_of_step(codes);
    }
    column_ += kStep;
    to_ += kStep * kTileRows;
    if (column_ < columns_) return;
    column_ = 0;
    --rows_left_;
    to_ = place(++row_);
    source_ += row_bytes_;
    if constexpr (kFormat == WeightFormat::kFp4) scale_ += row_scales_;
  }

 private:
  static DI_TILE_MEMBER int64_t bytes(int64_t columns) { return columns * kBytesPerCode / kCodesPerByte; }
  DI_TILE_MEMBER uint16_t* place(int64_t row) const {
    return tiles_ + row / kTileRows * columns_ * kTileRows + row % kTileRows * kTileColumns;
  }

  DI_TILE_MEMBER void whole_step(const uint8_t* codes) {
    if constexpr (kFormat == WeightFormat::kFp8) {
      fp8_.decode(_mm512_loadu_si512(codes), surplus_[column_ / 64], to_);
    } else if constexpr (kFormat == WeightFormat::kFp4) {
      uint32_t scales;
      __builtin_memcpy(&scales, scale_ + column_ / 32, 4);
      fp4_.decode(_mm512_loadu_si512(codes), scales, to_);
    } else {
      _mm512_store_si512(to_, _mm512_loadu_si512(codes));
    }
  }

  // The last columns of a row: less than a step, in groups of 32.
  DI_TILE_MEMBER void part_of_step(const uint8_t* codes) {
    if constexpr (kFormat == WeightFormat::kFp8) {
      const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
      fp8_.decode(_mm512_zextsi256_si512(half), surplus_[column_ / 64], to_);
    } else if constexpr (kFormat == WeightFormat::kFp4) {
      const int64_t groups = (known_ - column_) / 32;
      uint32_t scales = 0;
      for (int64_t g = 0; g < groups; ++g) scales |= static_cast<uint32_t>(scale_[column_ / 32 + g]) << (8 * g);
      const auto dwords = static_cast<__mmask16>((1u << (4 * groups)) - 1);
      fp4_.decode(_mm512_maskz_loadu_epi32(dwords, codes), scales, to_);
    }
  }

  Fp8Decoder fp8_;
  Fp4Decoder fp4_;
  __m512i* surplus_;
  int64_t rows_left_ = 0, row_ = 0, column_ = 0;
  int64_t columns_ = 0, known_ = 0;  // of the range; of them in the weight
  int64_t row_bytes_ = 0, row_scales_ = 0, ahead_ = 0;
  const uint8_t* source_ = nullptr;
  const uint8_t* scale_ = nullptr;
  uint16_t* tiles_ = nullptr;
  uint16_t* to_ = nullptr;
};

}  // namespace deepinfer::cpu::amx
