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

namespace deepinfer::cpu::amx {

inline constexpr int64_t kTileColumns = 32;
inline constexpr int64_t kTileElements = kTileRows * kTileColumns;

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

  DI_TILE Fp8Decoder load() {
    return {_mm512_load_si512(kFp8Tables.low), _mm512_load_si512(kFp8Tables.low + 64),
            _mm512_load_si512(kFp8Tables.high), _mm512_load_si512(kFp8Tables.high + 64)};
  }

  // What a step's values lose of their exponent: 247 - scale, for the columns 0-31 in the lanes 0 and 1, for 32-63 in 2
  // and 3.  Scales count as no less than 2^-117 and no more than 2^120.
  DI_TILE __m512i surplus(uint8_t scale0, uint8_t scale1) {
    const auto of = [](uint8_t scale) {
      const int exponents = 247 - scale;
      return static_cast<int16_t>((exponents < 0 ? 0 : exponents > 237 ? 237 : exponents) << 7);
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set1_epi16(of(scale0))), _mm256_set1_epi16(of(scale1)), 1);
  }

  // 64 codes as the rows of two tiles: columns 0-7 16-23 32-39 48-55, columns 8-15 24-31 40-47 56-63.
  void decode(__m512i codes, __m512i surplus, uint16_t* to) const {
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

  DI_TILE Fp4Decoder load() {
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
  DI_TILE void decode(__m512i codes, uint32_t scales, const Fp4Decoder& d, uint16_t* to) {
    const __m512i exponents =
        _mm512_srli_epi16(_mm512_shuffle_epi8(_mm512_set1_epi32(static_cast<int>(scales)), d.spread), 1);
    const __m512i surplus =
        _mm512_min_epu16(_mm512_sub_epi16(_mm512_set1_epi16(253 << 7), exponents), _mm512_set1_epi16(251 << 7));
    const __m512i v0 = _mm512_permutexvar_epi16(codes, d.table);
    const __m512i v1 = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), d.table);
    const __m512i v2 = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), d.table);
    const __m512i v3 = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), d.table);
    _mm512_store_si512(to, _mm512_subs_epu16(v0, surplus));
    _mm512_store_si512(to + kTileElements, _mm512_subs_epu16(v1, surplus));
    _mm512_store_si512(to + 2 * kTileElements, _mm512_subs_epu16(v2, surplus));
    _mm512_store_si512(to + 3 * kTileElements, _mm512_subs_epu16(v3, surplus));
  }
};

}  // namespace deepinfer::cpu::amx
