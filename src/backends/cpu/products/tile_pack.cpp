// Activation order of the amx path: the columns as the decoders of tile_decode.h place them, then pairs of columns of
// all rows together, as TDPBF16PS reads them.  And the way back: sums leave the tiles with weight rows along the lines.
#include "backends/cpu/products/tile_products.h"

namespace deepinfer::cpu::amx {
namespace {

// 16 lines of 16 dwords, transposed.
DI_TILE void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[4 g + c] holds, in lane l, column 4 l + c of the lines 4 g .. 4 g + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512i a = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88), b = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xDD), e = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xDD);
    t[c] = _mm512_shuffle_i32x4(a, b, 0x88);
    t[8 + c] = _mm512_shuffle_i32x4(a, b, 0xDD);
    t[4 + c] = _mm512_shuffle_i32x4(d, e, 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(d, e, 0xDD);
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// One step of a row, zero behind the row's end.
struct Step {
  alignas(64) uint16_t x[64];
};

DI_TILE void load_step(const uint16_t* row, int64_t begin, int64_t k, int64_t columns, Step& step) {
  for (int64_t i = 0; i < columns; i += 32) {
    const __m512i x = begin + i < k ? _mm512_loadu_si512(row + begin + i) : _mm512_setzero_si512();
    _mm512_store_si512(step.x + i, x);
  }
}

// The line of tile t of a step: 32 columns in the decoder's order.
DI_TILE __m512i tile_line(WeightFormat format, const Step& step, int64_t t) {
  if (format == WeightFormat::kBf16) return _mm512_load_si512(step.x);
  if (format == WeightFormat::kFp8) {  // every second block of 8 columns
    const uint16_t* x = step.x + 8 * t;
    const auto block = [x](int64_t i) { return _mm_load_si128(reinterpret_cast<const __m128i*>(x + 16 * i)); };
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(block(1), block(0))),
                              _mm256_set_m128i(block(3), block(2)), 1);
  }
  // Column 4w + j as word w of lane j.
  const __m512i lane_of_column = _mm512_set_epi16(31, 27, 23, 19, 15, 11, 7, 3, 30, 26, 22, 18, 14, 10, 6, 2, 29, 25,
                                                  21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0);
  return _mm512_permutexvar_epi16(lane_of_column, _mm512_load_si512(step.x));
}

}  // namespace

int64_t packed_columns(WeightFormat format, int64_t k) {
  const int64_t step = step_columns(format);
  return (k + step - 1) / step * step;
}

void pack(WeightFormat format, const uint16_t* const* rows, int count, int64_t k, uint16_t* tile) {
  const int64_t step = step_columns(format), tiles = step / kTileColumns;
  const auto used = static_cast<__mmask16>((1u << count) - 1);
  Step steps[kTileRows];
  for (int64_t begin = 0; begin < k; begin += step) {
    for (int i = 0; i < count; ++i) load_step(rows[i], begin, k, step, steps[i]);
    for (int64_t t = 0; t < tiles; ++t) {
      if (count == 1) {
        _mm512_storeu_si512(tile, tile_line(format, steps[0], t));
        tile += kTileColumns;
        continue;
      }
      __m512i lines[kTileRows];
      for (int i = 0; i < kTileRows; ++i) {
        lines[i] = i < count ? tile_line(format, steps[i], t) : _mm512_setzero_si512();
      }
      transpose(lines);
      for (int pair = 0; pair < kTileRows; ++pair, tile += 2 * count) _mm512_mask_storeu_epi32(tile, used, lines[pair]);
    }
  }
}

void store_transposed(const float* c, int outputs, int rows, float* out, int64_t stride) {
  if (rows == 1) {
    for (int i = 0; i < outputs; ++i) out[i] = c[i * kTileRows];
    return;
  }
  __m512i lines[kTileRows];
  for (int i = 0; i < kTileRows; ++i) lines[i] = _mm512_loadu_si512(c + i * kTileRows);
  transpose(lines);
  const auto used = static_cast<__mmask16>((1u << outputs) - 1);
  for (int j = 0; j < rows; ++j) _mm512_mask_storeu_epi32(out + j * stride, used, lines[j]);
}

void store_rounded(const float* c, const float* next, int outputs, int rows, uint16_t* y, int64_t stride) {
  const auto used = static_cast<__mmask32>((uint64_t{1} << outputs) - 1);
  const auto rounded = [](__m512 upper, __m512 lower) {
    return __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(upper, lower));
  };
  if (rows == 1) {
    alignas(64) float row[2 * kTileRows];
    for (int i = 0; i < kTileRows; ++i) {
      row[i] = c[i * kTileRows];
      row[kTileRows + i] = next[i * kTileRows];
    }
    _mm512_mask_storeu_epi16(y, used, rounded(_mm512_load_ps(row + kTileRows), _mm512_load_ps(row)));
    return;
  }
  // Lane j of line i: outputs 2i and 2i + 1 of row j.
  const __m512i in_turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  __m512i lines[kTileRows];
  for (int i = 0; i < kTileRows; ++i) {
    const float* pair = (i < kTileRows / 2 ? c : next) + i % (kTileRows / 2) * 2 * kTileRows;
    lines[i] = _mm512_permutexvar_epi16(in_turn, rounded(_mm512_load_ps(pair + kTileRows), _mm512_load_ps(pair)));
  }
  transpose(lines);
  for (int j = 0; j < rows; ++j) _mm512_mask_storeu_epi16(y + j * stride, used, lines[j]);
}

}  // namespace deepinfer::cpu::amx
