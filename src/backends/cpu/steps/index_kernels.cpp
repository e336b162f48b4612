// Index scores: e2m1 times e2m1 as whole numbers, sixteen keys at a time.
//
// Both factors are doubled (0, 1, 2, 3, 4, 6, 8, 12 and their negatives).  Keys are offset by 12 to be unsigned, which
// the byte products want; 12 times the sum of a query's group is taken off again.  Everything up to the product with
// the scales is exact, and the rest follows the order of ops/index_topk.h, so all paths give the same scores.
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

namespace {

constexpr int kGroup = 32;
constexpr int kMostDim = 256;
constexpr int kMostGroups = kMostDim / kGroup;

// Sixteen keys, four channels of each side by side.
struct KeyTile {
  alignas(64) uint8_t words[kMostDim / 4][kKeyTile][4];
  alignas(64) float scales[kMostGroups][kKeyTile];
};

float scale_of_code(uint32_t code) {
  return float_of_bits(code == 0 ? 0x00400000u : code == 255 ? 0x7FC00000u : code << 23);
}

// 32 doubled values, in channel order, of 16 bytes; `table` maps codes to bytes.
DI_INLINE void unpack_codes(const uint8_t* packed, __m128i table, uint8_t* to) {
  const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed)), mask = _mm_set1_epi8(15);
  const __m128i low = _mm_shuffle_epi8(table, _mm_and_si128(both, mask));
  const __m128i high = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(both, 4), mask));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi8(low, high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16), _mm_unpackhi_epi8(low, high));
}

DI_INLINE void fill_tile(const uint8_t* const* keys, int head_dim, KeyTile& tile) {
  const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  alignas(64) uint32_t rows[kKeyTile][kMostDim / 4];
  for (int k = 0; k < kKeyTile; ++k) {
    for (int g = 0; g < head_dim / kGroup; ++g) {
      unpack_codes(keys[k] + g * kGroup / 2, table, reinterpret_cast<uint8_t*>(rows[k]) + g * kGroup);
      tile.scales[g][k] = scale_of_code(keys[k][head_dim / 2 + g]);
    }
  }
  for (int w = 0; w < head_dim / 4; ++w) {
    for (int k = 0; k < kKeyTile; ++k) memcpy(tile.words[w][k], &rows[k][w], 4);
  }
}

#if defined(__AVX512F__)
constexpr int kTileHeads = 8;

// sum += unsigned bytes of keys times the same four signed bytes in every lane.  As an instruction of its own: GCC 12
// copies the sum around the built-in and broadcasts the bytes through a register.
DI_INLINE void add_products(I& sum, __m512i keys, const int8_t* query) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.v) : "v"(keys), "m"(*reinterpret_cast<const int8_t(*)[4]>(query)));
}

// Products of one group, times four.
template <int kHeads>
DI_INLINE void group_products(const KeyTile& tile, int group, const int8_t* query, int head_dim, const int32_t* offsets,
                              int groups, I (&sum)[kHeads]) {
  for (int h = 0; h < kHeads; ++h) sum[h] = splat_int(offsets[h * groups]);
  const int8_t* q = query + group * kGroup;
  for (int w = 0; w < kGroup / 4; ++w) {
    const __m512i key = _mm512_load_si512(&tile.words[group * kGroup / 4 + w]);
    for (int h = 0; h < kHeads; ++h) add_products(sum[h], key, q + h * head_dim + 4 * w);
  }
}
#else
constexpr int kTileHeads = 2;

template <int kHeads>
DI_INLINE void group_products(const KeyTile& tile, int group, const int8_t* query, int head_dim, const int32_t* offsets,
                              int groups, I (&sum)[kHeads]) {
  __m256i low[kHeads], high[kHeads];  // 16-bit sums: at most 16 * 24 * 12 = 4608
  for (int h = 0; h < kHeads; ++h) low[h] = high[h] = _mm256_setzero_si256();
  for (int w = group * kGroup / 4; w < (group + 1) * kGroup / 4; ++w) {
    const __m256i key_low = _mm256_load_si256(reinterpret_cast<const __m256i*>(&tile.words[w][0]));
    const __m256i key_high = _mm256_load_si256(reinterpret_cast<const __m256i*>(&tile.words[w][8]));
    for (int h = 0; h < kHeads; ++h) {
      int32_t four;
      memcpy(&four, query + h * head_dim + 4 * w, sizeof(four));
      const __m256i q = _mm256_set1_epi32(four);
      low[h] = _mm256_add_epi16(low[h], _mm256_maddubs_epi16(key_low, q));
      high[h] = _mm256_add_epi16(high[h], _mm256_maddubs_epi16(key_high, q));
    }
  }
  const __m256i ones = _mm256_set1_epi16(1);
  for (int h = 0; h < kHeads; ++h) {
    sum[h] = I{_mm256_madd_epi16(low[h], ones), _mm256_madd_epi16(high[h], ones)} + splat_int(offsets[h * groups]);
  }
}
#endif

// Adds heads [first, first + kHeads) to the scores.
template <int kHeads>
DI_INLINE F add_heads(const KeyTile& tile, const IndexQueryView& query, int first, int head_dim, F score) {
  const int groups = head_dim / kGroup;
  F dot[kHeads];
  for (int h = 0; h < kHeads; ++h) dot[h] = splat(0);
  for (int g = 0; g < groups; ++g) {
    I products[kHeads];
    group_products<kHeads>(tile, g, query.values + first * head_dim, head_dim, query.offsets + first * groups + g,
                           groups, products);
    const F key_scale = load(tile.scales[g]);
    for (int h = 0; h < kHeads; ++h) {
      const F scale = splat(query.scales[(first + h) * groups + g]) * key_scale;
      dot[h] = dot[h] + (to_float(products[h]) * splat(0.25f)) * scale;
    }
  }
  for (int h = 0; h < kHeads; ++h) score = score + maximum(splat(0), dot[h]) * splat(query.weights[first + h]);
  return score;
}

}  // namespace

void unpack_index_query(const uint8_t* records, int heads, int head_dim, int8_t* values, float* scales,
                        int32_t* offsets) {
  const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const int groups = head_dim / kGroup;
  for (int h = 0; h < heads; ++h) {
    const uint8_t* record = records + h * (head_dim / 2 + groups);
    for (int g = 0; g < groups; ++g) {
      int8_t* to = values + h * head_dim + g * kGroup;
      unpack_codes(record + g * kGroup / 2, table, reinterpret_cast<uint8_t*>(to));
      int32_t sum = 0;
      for (int i = 0; i < kGroup; ++i) sum += to[i];
      offsets[h * groups + g] = -12 * sum;
      scales[h * groups + g] = scale_of_code(record[head_dim / 2 + g]);
    }
  }
}

void index_scores(const IndexQueryView* queries, int rows, int heads, int head_dim, const uint8_t* const* keys,
                  float* scores, int64_t score_stride) {
  KeyTile tile;
  fill_tile(keys, head_dim, tile);
  for (int r = 0; r < rows; ++r) {
    F score = splat(0);
    int h = 0;
    for (; h + kTileHeads <= heads; h += kTileHeads)
      score = add_heads<kTileHeads>(tile, queries[r], h, head_dim, score);
    for (; h < heads; ++h) score = add_heads<1>(tile, queries[r], h, head_dim, score);
    // A NaN counts as -infinity.
    store(scores + r * score_stride, select(equal(score, score), score, splat(-__builtin_inff())));
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
