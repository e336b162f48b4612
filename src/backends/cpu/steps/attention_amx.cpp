// Attention of one query row with AMX tiles, for models whose heads come in sixteens, or are filled up to so many.
//
// Scores are computed transposed, keys x heads: decoded keys are tile operands as they lie, and sixteen heads advance
// through the softmax side by side.  The weighted sum takes keys in pairs (prepare_keys) and numerators in tiles
// (softmax). A score is one chain of tile products along the channels, a denominator is added key after key, an output
// is one chain along the keys; none depends on ranges.  TDPBF16PS reads subnormal bf16 as zero: numerators below 2^-126
// are lost.
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::amx {

namespace {

using namespace avx512;

constexpr int kTile = 16;                         // rows of a tile; 16 dwords a row
constexpr int64_t kTileBf16 = kTile * kTile * 2;  // values of a bf16 tile
constexpr int64_t kTileChannels = 32;             // channels of a score's tile
constexpr int64_t kTileKeys = 32;                 // keys of a value's tile

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void configure() {
  const TileConfig config;
  __asm__ volatile("" ::"r"(&config) : "memory");  // the intrinsic names only the first bytes as its input
  _tile_loadconfig(&config);
}

int64_t rounded_count(const AttentionRow& row) {
  return (row.count + kTileKeys - 1) / kTileKeys * kTileKeys;
}

// 16 x 16 dwords: rows `stride` dwords apart become columns of the contiguous result.
DI_INLINE void transpose(const __m512i (&in)[kTile], uint32_t* out) {
  __m512i a[kTile], b[kTile];
  for (int i = 0; i < kTile; i += 2) {
    a[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
  }
  for (int i = 0; i < kTile; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  // b[4 q + c] holds, in block k, column 4 k + c of rows 4 q .. 4 q + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512i low01 = _mm512_shuffle_i32x4(b[c], b[4 + c], 0x88),
                  high01 = _mm512_shuffle_i32x4(b[c], b[4 + c], 0xDD);
    const __m512i low23 = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0x88);
    const __m512i high23 = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0xDD);
    _mm512_storeu_si512(out + kTile * c, _mm512_shuffle_i32x4(low01, low23, 0x88));
    _mm512_storeu_si512(out + kTile * (4 + c), _mm512_shuffle_i32x4(high01, high23, 0x88));
    _mm512_storeu_si512(out + kTile * (8 + c), _mm512_shuffle_i32x4(low01, low23, 0xDD));
    _mm512_storeu_si512(out + kTile * (12 + c), _mm512_shuffle_i32x4(high01, high23, 0xDD));
  }
}

// Query tiles [16 heads][32 channels] as [16 channel pairs][16 heads], one after another by head group, then channels.
void prepare_queries(const AttentionRow& row) {
  auto* tile = reinterpret_cast<uint32_t*>(row.queries);
  for (int h = 0; h < row.heads; h += kTile) {
    for (int64_t c = 0; c < row.d; c += kTileChannels, tile += kTile * kTile) {
      __m512i in[kTile];
      for (int i = 0; i < kTile; ++i) {
        in[i] = h + i < row.used_heads ? _mm512_loadu_si512(row.q + (h + i) * row.d + c) : _mm512_setzero_si512();
      }
      transpose(in, tile);
    }
  }
}

// Key tiles [16 key pairs][16 channels] by keys, then channels; keys behind the last one are 0.
void prepare_keys(const AttentionRow& row, int64_t first, int64_t count) {
  const int64_t d = row.d, end = (first + count + kTileKeys - 1) / kTileKeys * kTileKeys;
  memset(row.keys + (first + count) * d, 0, static_cast<size_t>((end - first - count) * d) * sizeof(uint16_t));
  alignas(64) uint16_t order[2][32];
  for (int i = 0; i < 32; ++i) {
    order[0][i] = static_cast<uint16_t>(i / 2 + 32 * (i % 2));
    order[1][i] = static_cast<uint16_t>(16 + i / 2 + 32 * (i % 2));
  }
  const __m512i low = _mm512_load_si512(order[0]), high = _mm512_load_si512(order[1]);
  for (int64_t j = first; j < end; j += kTileKeys) {
    uint16_t* to = row.key_tiles + j * d;
    for (int64_t c = 0; c < d; c += 32, to += 2 * kTileBf16) {
      const uint16_t* even = row.keys + j * d + c;
      for (int64_t pair = 0; pair < kTile; ++pair, even += 2 * d) {
        const __m512i a = _mm512_loadu_si512(even), b = _mm512_loadu_si512(even + d);
        _mm512_storeu_si512(to + pair * 2 * kTile, _mm512_permutex2var_epi16(a, low, b));
        _mm512_storeu_si512(to + kTileBf16 + pair * 2 * kTile, _mm512_permutex2var_epi16(a, high, b));
      }
    }
  }
}

// Two key tiles times one or two head groups.
template <bool kTwoGroups>
DI_INLINE void score_square(const AttentionRow& row, int64_t first, int group) {
  const int64_t d = row.d, steps = d / kTileChannels, key_stride = d * 2, score_stride = row.heads * 4;
  const uint16_t* keys = row.keys + first * d;
  const auto* q = reinterpret_cast<const uint16_t*>(row.queries) + group * steps * kTileBf16;
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kTwoGroups) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(4, keys + step * kTileChannels, key_stride);
    _tile_loadd(5, keys + kTile * d + step * kTileChannels, key_stride);
    _tile_loadd(6, q + step * kTileBf16, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    if constexpr (kTwoGroups) {
      _tile_loadd(7, q + (steps + step) * kTileBf16, 64);
      _tile_dpbf16ps(2, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  float* s = row.scores + first * row.heads + group * kTile;
  _tile_stored(0, s, score_stride);
  _tile_stored(1, s + kTile * row.heads, score_stride);
  if constexpr (kTwoGroups) {
    _tile_stored(2, s + kTile, score_stride);
    _tile_stored(3, s + kTile * row.heads + kTile, score_stride);
  }
}

// scores[key][head], not scaled yet.
void scores(const AttentionRow& row, int64_t first, int64_t count) {
  configure();
  const int groups = row.heads / kTile;
  for (int64_t j = first; j < first + count; j += kTileKeys) {
    int group = 0;
    for (; group + 2 <= groups; group += 2) score_square<true>(row, j, group);
    if (group < groups) score_square<false>(row, j, group);
  }
  _tile_release();
}

// Numerators as tiles [16 heads][32 keys], by keys, then head groups.
void softmax(const AttentionRow& row, int first_head, int heads) {
  const int64_t rounded = rounded_count(row), groups = row.heads / kTile;
  const F scale = splat(row.scale);
  for (int h = first_head; h < first_head + heads; h += kTile) {
    F top = splat(-1e30f);
    for (int64_t j = 0; j < row.count; ++j) top = maximum(load(row.scores + j * row.heads + h) * scale, top);
    F sum = splat(0);
    const auto numerator = [&](int64_t j) {
      if (j >= row.count) return splat_int(0);
      const F p = exponential(load(row.scores + j * row.heads + h) * scale - top);
      sum = sum + p;
      return to_bf16_bits(p);
    };
    for (int64_t j = 0; j < rounded; j += kTileKeys) {
      __m512i pairs[kTile];
      for (int i = 0; i < kTile; ++i) {
        const I even = numerator(j + 2 * i);
        pairs[i] = bit_or(even, shift_left<16>(numerator(j + 2 * i + 1))).v;
      }
      transpose(pairs,
                reinterpret_cast<uint32_t*>(row.weight_tiles + (j / kTileKeys * groups + h / kTile) * kTileBf16));
    }
    store(row.denominator + h, sum + exponential(load(row.sink + h) - top));
  }
}

// A sum that is 0 has the sign +, however many keys of weight 0 came after it.
DI_INLINE void write_output(const AttentionRow& row, const float* sums, int head, int64_t channel) {
  for (int i = 0; i < kTile && head + i < row.used_heads; ++i) {
    const F sum = load(sums + i * kTile) + splat(0);
    store_bf16(row.o + (head + i) * row.d + channel, sum / splat(row.denominator[head + i]));
  }
}

// One head group times up to four channel tiles.
void value_column(const AttentionRow& row, int head, int64_t channel, int tiles) {
  const int64_t groups = row.heads / kTile, key_step = kTileKeys * row.d, steps = rounded_count(row) / kTileKeys;
  const uint16_t* p = row.weight_tiles + head / kTile * kTileBf16;
  const uint16_t* k = row.key_tiles + channel * kTileKeys;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < steps; ++step, p += groups * kTileBf16, k += key_step) {
    _tile_loadd(4, p, 64);
    _tile_loadd(6, k, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, k + kTileBf16, 64);
    _tile_dpbf16ps(1, 4, 7);
    if (tiles > 2) {
      _tile_loadd(6, k + 2 * kTileBf16, 64);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(7, k + 3 * kTileBf16, 64);
      _tile_dpbf16ps(3, 4, 7);
    }
  }
  alignas(64) float sums[4][kTile * kTile];
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  for (int t = 0; t < tiles; ++t) write_output(row, sums[t], head, channel + t * kTile);
}

// Two head groups times two channel tiles.
void value_square(const AttentionRow& row, int head, int64_t channel) {
  const int64_t groups = row.heads / kTile, key_step = kTileKeys * row.d, steps = rounded_count(row) / kTileKeys;
  const uint16_t* p = row.weight_tiles + head / kTile * kTileBf16;
  const uint16_t* k = row.key_tiles + channel * kTileKeys;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < steps; ++step, p += groups * kTileBf16, k += key_step) {
    _tile_loadd(4, p, 64);
    _tile_loadd(6, k, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, k + kTileBf16, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, p + kTileBf16, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sums[4][kTile * kTile];
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  for (int t = 0; t < 4; ++t) write_output(row, sums[t], head + t / 2 * kTile, channel + t % 2 * kTile);
}

void values(const AttentionRow& row, int first_head, int heads, int64_t first_channel, int64_t channels) {
  configure();
  int h = first_head;
  for (; h + 2 * kTile <= first_head + heads; h += 2 * kTile) {
    for (int64_t c = 0; c < channels; c += 2 * kTile) value_square(row, h, first_channel + c);
  }
  for (int64_t c = 0; c < channels && h < first_head + heads; c += kChannelRange) {
    const int64_t here = channels - c < kChannelRange ? channels - c : kChannelRange;
    value_column(row, h, first_channel + c, static_cast<int>(here / kTile));
  }
  _tile_release();
}

}  // namespace

}  // namespace deepinfer::cpu::amx

namespace deepinfer::cpu {

const AttentionKernels& attention_kernels_amx() {
  using namespace amx;
  static constexpr AttentionKernels kTable = {kTile,        kTileKeys, kTile,   true,  prepare_queries,
                                              prepare_keys, scores,    softmax, values};
  return kTable;
}

}  // namespace deepinfer::cpu
