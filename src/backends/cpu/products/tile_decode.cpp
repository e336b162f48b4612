#include "backends/cpu/products/tile_decode.h"

#include "backends/cpu/products/tile_products.h"

namespace deepinfer::cpu::amx {
namespace {

constexpr Fp8Tables make_fp8_tables() {
  Fp8Tables tables{};
  for (int code = 1; code < 128; ++code) {
    int exponent = code >> 3, fraction = code & 7;
    if (exponent == 0) {  // subnormal: fraction * 2^-9
      exponent = 1;
      while ((fraction & 8) == 0) {
        fraction <<= 1;
        --exponent;
      }
      fraction &= 7;
    }
    const int bits = (exponent - 7 + 127 + 120) << 7 | fraction << 4;
    tables.low[code] = static_cast<uint8_t>(bits);
    tables.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  return tables;
}

DI_TILE void prefetch(const uint8_t* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

// Where a row's prefetch goes: the bytes behind its range, or the start of a later row if the range ends the row.
DI_TILE const uint8_t* prefetch_base(const uint8_t* row, int64_t row_bytes, int64_t begin, int64_t end,
                                     int64_t next_row) {
  return end < row_bytes ? row + (end - begin) : row + next_row * row_bytes - begin;
}

DI_TILE uint16_t* row_of(uint16_t* tiles, int64_t row, int64_t columns) {
  return tiles + row / kTileRows * (columns / kTileColumns) * kTileElements + row % kTileRows * kTileColumns;
}

void decode_fp8(const WeightBlock& weight, const DecodeRange& range, uint16_t* tiles) {
  const int64_t k = weight.k, scales = k / 32;
  const Fp8Decoder decoder = Fp8Decoder::load();
  for (int64_t r = 0; r < range.rows; ++r) {
    const uint8_t* row = weight.data + (range.first + r) * k;
    const uint8_t* scale = weight.scale + (range.first + r) / 32 * scales;
    const uint8_t* ahead = prefetch_base(row, k, range.begin, range.end, range.next_row);
    uint16_t* to = row_of(tiles, r, range.end - range.begin);
    for (int64_t i = range.begin; i < range.end; i += 64, to += 2 * kTileElements) {
      prefetch(ahead + i);
      if (i + 64 <= k) [[likely]] {
        decoder.decode(_mm512_loadu_si512(row + i), Fp8Decoder::surplus(scale[i / 32], scale[i / 32 + 1]), to);
      } else {
        decoder.decode(_mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + i))),
                       Fp8Decoder::surplus(scale[i / 32], scale[i / 32]), to);
      }
    }
  }
}

void decode_fp4(const WeightBlock& weight, const DecodeRange& range, uint16_t* tiles) {
  const int64_t k = weight.k;
  const Fp4Decoder decoder = Fp4Decoder::load();
  for (int64_t r = 0; r < range.rows; ++r) {
    const uint8_t* row = weight.data + (range.first + r) * (k / 2);
    const uint8_t* scale = weight.scale + (range.first + r) * (k / 32);
    const uint8_t* ahead = prefetch_base(row, k / 2, range.begin / 2, range.end / 2, range.next_row);
    uint16_t* to = row_of(tiles, r, range.end - range.begin);
    for (int64_t i = range.begin; i < range.end; i += 128, to += 4 * kTileElements) {
      prefetch(ahead + i / 2);
      if (i + 128 <= k) [[likely]] {
        uint32_t four;
        __builtin_memcpy(&four, scale + i / 32, 4);
        Fp4Decoder::decode(_mm512_loadu_si512(row + i / 2), four, decoder, to);
      } else {
        const int64_t groups = (k - i) / 32;
        uint32_t some = 0;
        for (int64_t g = 0; g < groups; ++g) some |= static_cast<uint32_t>(scale[i / 32 + g]) << (8 * g);
        const auto dwords = static_cast<__mmask16>((1u << (4 * groups)) - 1);
        Fp4Decoder::decode(_mm512_maskz_loadu_epi32(dwords, row + i / 2), some, decoder, to);
      }
    }
  }
}

void copy_bf16(const WeightBlock& weight, const DecodeRange& range, uint16_t* tiles) {
  const int64_t k = weight.k;
  for (int64_t r = 0; r < range.rows; ++r) {
    const uint8_t* row = weight.data + (range.first + r) * 2 * k;
    const uint8_t* ahead = prefetch_base(row, 2 * k, 2 * range.begin, 2 * range.end, range.next_row);
    uint16_t* to = row_of(tiles, r, range.end - range.begin);
    for (int64_t i = range.begin; i < range.end; i += kTileColumns, to += kTileElements) {
      prefetch(ahead + 2 * i);
      _mm512_store_si512(to, _mm512_loadu_si512(row + 2 * i));
    }
  }
}

}  // namespace

constinit const Fp8Tables kFp8Tables = make_fp8_tables();

void decode_block(const WeightBlock& weight, const DecodeRange& range, uint16_t* tiles) {
  switch (weight.format) {
    case WeightFormat::kFp8:
      decode_fp8(weight, range, tiles);
      break;
    case WeightFormat::kFp4:
      decode_fp4(weight, range, tiles);
      break;
    case WeightFormat::kBf16:
      copy_bf16(weight, range, tiles);
      break;
  }
  const int64_t columns = range.end - range.begin;
  for (int64_t r = range.rows; r % kTileRows != 0; ++r) {
    uint16_t* to = row_of(tiles, r, columns);
    for (int64_t i = 0; i < columns; i += kTileColumns, to += kTileElements) {
      _mm512_store_si512(to, _mm512_setzero_si512());
    }
  }
}

}  // namespace deepinfer::cpu::amx
