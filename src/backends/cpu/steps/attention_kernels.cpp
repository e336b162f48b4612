// Attention of one query row: scores, softmax numerators, weighted sum.  Keys come as fp32 rows, or as bf16 rows that
// are widened once per tile; all heads share them.
//
// Orders: a dot product runs over 16 lanes and one fixed tree; the denominator likewise over the keys; a weighted sum
// adds the keys one after another.  None depends on tiles.
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

namespace {

constexpr int64_t kMostChannels = 512;  // of a head
constexpr int64_t kValueKeys = 32;      // keys widened together for the weighted sum
constexpr int64_t kValueChannels = kChannelRange;
constexpr int kScoreRange = 8;   // keys of a range: few, so that many threads may share a row
constexpr int kValueHeads = 64;  // heads that share a widened block

#if defined(__AVX512F__)
constexpr int64_t kScoreKeys = 8;  // keys widened together for scores
constexpr int kTileHeads = 4, kTileKeys = 4, kSumHeads = 4, kSumVectors = 4;

// Sums of the lanes of a 4 x 4 tile, the tree of horizontal_sum; out[h] receives four keys.
DI_INLINE void reduce_tile(const F (&a)[4][4], F scale, float* s, int64_t stride) {
  __m512 quarter[4];  // by key; block h holds the four quarter sums of head h
  for (int k = 0; k < 4; ++k) {
    const __m512 p = _mm512_add_ps(_mm512_shuffle_f32x4(a[0][k].v, a[1][k].v, 0x44),
                                   _mm512_shuffle_f32x4(a[0][k].v, a[1][k].v, 0xEE));
    const __m512 q = _mm512_add_ps(_mm512_shuffle_f32x4(a[2][k].v, a[3][k].v, 0x44),
                                   _mm512_shuffle_f32x4(a[2][k].v, a[3][k].v, 0xEE));
    quarter[k] = _mm512_add_ps(_mm512_shuffle_f32x4(p, q, 0x88), _mm512_shuffle_f32x4(p, q, 0xDD));
  }
  const __m512 u =
      _mm512_add_ps(_mm512_shuffle_ps(quarter[0], quarter[1], 0x88), _mm512_shuffle_ps(quarter[0], quarter[1], 0xDD));
  const __m512 v =
      _mm512_add_ps(_mm512_shuffle_ps(quarter[2], quarter[3], 0x88), _mm512_shuffle_ps(quarter[2], quarter[3], 0xDD));
  const __m512 sums =
      _mm512_mul_ps(_mm512_add_ps(_mm512_shuffle_ps(u, v, 0x88), _mm512_shuffle_ps(u, v, 0xDD)), scale.v);
  _mm_storeu_ps(s, _mm512_castps512_ps128(sums));
  _mm_storeu_ps(s + stride, _mm512_extractf32x4_ps(sums, 1));
  _mm_storeu_ps(s + 2 * stride, _mm512_extractf32x4_ps(sums, 2));
  _mm_storeu_ps(s + 3 * stride, _mm512_extractf32x4_ps(sums, 3));
}

// q rows and keys of d values, keys key_stride apart.
template <int kHeads, int kKeys>
DI_INLINE void score_tile(const float* q, const float* keys, int64_t key_stride, int64_t d, float scale, float* s,
                          int64_t stride) {
  F sum[kHeads][kKeys];
  for (int h = 0; h < kHeads; ++h) {
    for (int k = 0; k < kKeys; ++k) sum[h][k] = splat(0);
  }
  for (int64_t c = 0; c < d; c += kLanes) {
    F key[kKeys];
    for (int k = 0; k < kKeys; ++k) key[k] = load(keys + k * key_stride + c);
    for (int h = 0; h < kHeads; ++h) {
      const F query = load(q + h * d + c);
      for (int k = 0; k < kKeys; ++k) sum[h][k] = fma(query, key[k], sum[h][k]);
    }
  }
  if constexpr (kHeads == 4 && kKeys == 4) {
    reduce_tile(sum, splat(scale), s, stride);
  } else {
    for (int h = 0; h < kHeads; ++h) {
      for (int k = 0; k < kKeys; ++k) s[h * stride + k] = horizontal_sum(sum[h][k]) * scale;
    }
  }
}
#else
constexpr int64_t kScoreKeys = 6;
constexpr int kTileHeads = 4, kTileKeys = 3, kSumHeads = 4, kSumVectors = 1;

// As with AVX-512.  The sixteen registers hold twelve sums of eight lanes, so the lower and the upper lanes of each
// vector are summed one after the other.
template <int kHeads, int kKeys>
DI_INLINE void score_tile(const float* q, const float* keys, int64_t key_stride, int64_t d, float scale, float* s,
                          int64_t stride) {
  __m256 half[2][kHeads][kKeys];
  for (int side = 0; side < 2; ++side) {
    __m256 sum[kHeads][kKeys];
    for (int h = 0; h < kHeads; ++h) {
      for (int k = 0; k < kKeys; ++k) sum[h][k] = _mm256_setzero_ps();
    }
    for (int64_t c = 8 * side; c < d; c += kLanes) {
      __m256 key[kKeys];
      for (int k = 0; k < kKeys; ++k) key[k] = _mm256_loadu_ps(keys + k * key_stride + c);
      for (int h = 0; h < kHeads; ++h) {
        const __m256 query = _mm256_loadu_ps(q + h * d + c);
        for (int k = 0; k < kKeys; ++k) sum[h][k] = _mm256_fmadd_ps(query, key[k], sum[h][k]);
      }
    }
    for (int h = 0; h < kHeads; ++h) {
      for (int k = 0; k < kKeys; ++k) half[side][h][k] = sum[h][k];
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int k = 0; k < kKeys; ++k) s[h * stride + k] = horizontal_sum(F{half[0][h][k], half[1][h][k]}) * scale;
  }
}
#endif

template <int kHeads>
DI_INLINE void score_heads(const float* q, const float* keys, int64_t key_stride, int64_t count, int64_t d, float scale,
                           float* s, int64_t stride) {
  int64_t k = 0;
  for (; k + kTileKeys <= count; k += kTileKeys) {
    score_tile<kHeads, kTileKeys>(q, keys + k * key_stride, key_stride, d, scale, s + k, stride);
  }
  for (; k < count; ++k) score_tile<kHeads, 1>(q, keys + k * key_stride, key_stride, d, scale, s + k, stride);
}

// sum[h][c] += sum_j p[h][j] keys[j][c]; rows of sum are kValueChannels apart.
template <int kHeads, int kVectors>
DI_INLINE void value_tile(const float* p, int64_t stride, const float* keys, int64_t key_stride, int64_t count,
                          float* sum) {
  F total[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) total[h][v] = load(sum + h * kValueChannels + v * kLanes);
  }
  for (int64_t j = 0; j < count; ++j) {
    F key[kVectors];
    for (int v = 0; v < kVectors; ++v) key[v] = load(keys + j * key_stride + v * kLanes);
    for (int h = 0; h < kHeads; ++h) {
      const F weight = splat(p[h * stride + j]);
      for (int v = 0; v < kVectors; ++v) total[h][v] = fma(weight, key[v], total[h][v]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) store(sum + h * kValueChannels + v * kLanes, total[h][v]);
  }
}

template <int kHeads>
DI_INLINE void value_heads(const float* p, int64_t stride, const float* keys, int64_t key_stride, int64_t count,
                           int64_t channels, float* sum) {
  int64_t c = 0;
  for (; c + kSumVectors * kLanes <= channels; c += kSumVectors * kLanes) {
    value_tile<kHeads, kSumVectors>(p, stride, keys + c, key_stride, count, sum + c);
  }
  for (; c < channels; c += kLanes) value_tile<kHeads, 1>(p, stride, keys + c, key_stride, count, sum + c);
}

// Scores of a head lie in a row of this stride.
DI_INLINE int64_t score_stride(const AttentionRow& row) {
  return (row.count + kKeyRange - 1) / kKeyRange * kKeyRange;
}

void prepare_queries(const AttentionRow& row) {
  for (int64_t i = 0; i < row.heads * row.d; i += kLanes) store(row.queries + i, load_bf16(row.q + i));
}

void prepare_keys(const AttentionRow&, int64_t, int64_t) {}

void scores(const AttentionRow& row, int64_t first, int64_t count) {
  alignas(64) float widened[kScoreKeys * kMostChannels];
  const bool wide = row.wide_keys != nullptr;
  const int64_t d = row.d, stride = score_stride(row), key_stride = wide ? wide_key_stride(d) : kMostChannels;
  for (int64_t j = first; j < first + count; j += kScoreKeys) {
    const int64_t here = first + count - j < kScoreKeys ? first + count - j : kScoreKeys;
    for (int64_t k = 0; k < here && !wide; ++k) {
      for (int64_t c = 0; c < d; c += kLanes)
        store(widened + k * kMostChannels + c, load_bf16(row.keys + (j + k) * d + c));
    }
    const float* keys = wide ? row.wide_keys + j * key_stride : widened;
    int h = 0;
    for (; h + kTileHeads <= row.heads; h += kTileHeads) {
      score_heads<kTileHeads>(row.queries + h * d, keys, key_stride, here, d, row.scale, row.scores + h * stride + j,
                              stride);
    }
    for (; h < row.heads; ++h) {
      score_heads<1>(row.queries + h * d, keys, key_stride, here, d, row.scale, row.scores + h * stride + j, stride);
    }
  }
}

void softmax(const AttentionRow& row, int first_head, int heads) {
  for (int h = first_head; h < first_head + heads; ++h) {
    float* s = row.scores + h * score_stride(row);
    F most = splat(-1e30f);
    for (int64_t j = row.count; j % kLanes != 0; ++j) s[j] = -__builtin_inff();  // an exact 0 after the exponential
    for (int64_t j = 0; j < row.count; j += kLanes) most = maximum(load(s + j), most);
    const float top = horizontal_maximum(most);
    F sum = splat(0);
    for (int64_t j = 0; j < row.count; j += kLanes) {
      const F p = exponential(load(s + j) - splat(top));
      sum = sum + p;
      store(s + j, as_float(shift_left<16>(to_bf16_bits(p))));
    }
    float sink_term[kLanes];
    store(sink_term, exponential(splat(row.sink[h] - top)));
    row.denominator[h] = horizontal_sum(sum) + sink_term[0];
  }
}

void values(const AttentionRow& row, int first_head, int heads, int64_t first_channel, int64_t channels) {
  alignas(64) float widened[kValueKeys * kValueChannels];
  alignas(64) float sum[kValueHeads * kValueChannels];
  const bool wide = row.wide_keys != nullptr;
  const int64_t stride = score_stride(row), key_stride = wide ? wide_key_stride(row.d) : kValueChannels;
  // Keys that lie wide and meet the sums of one tile only pass in one go.
  const int64_t block = wide && heads <= kSumHeads ? row.count : kValueKeys;
  for (int from = first_head; from < first_head + heads; from += kValueHeads) {
    const int group = first_head + heads - from < kValueHeads ? first_head + heads - from : kValueHeads;
    memset(sum, 0, static_cast<size_t>(group) * kValueChannels * sizeof(float));
    for (int64_t j = 0; j < row.count; j += block) {
      const int64_t here = row.count - j < block ? row.count - j : block;
      for (int64_t k = 0; k < here && !wide; ++k) {
        const uint16_t* key = row.keys + (j + k) * row.d + first_channel;
        for (int64_t c = 0; c < channels; c += kLanes) store(widened + k * kValueChannels + c, load_bf16(key + c));
      }
      const float* keys = wide ? row.wide_keys + j * key_stride + first_channel : widened;
      int h = 0;
      for (; h + kSumHeads <= group; h += kSumHeads) {
        value_heads<kSumHeads>(row.scores + (from + h) * stride + j, stride, keys, key_stride, here, channels,
                               sum + h * kValueChannels);
      }
      for (; h < group; ++h) {
        value_heads<1>(row.scores + (from + h) * stride + j, stride, keys, key_stride, here, channels,
                       sum + h * kValueChannels);
      }
    }
    for (int h = 0; h < group; ++h) {
      const F total = splat(row.denominator[from + h]);
      for (int64_t c = 0; c < channels; c += kLanes) {
        store_bf16(row.o + (from + h) * row.d + first_channel + c, load(sum + h * kValueChannels + c) / total);
      }
    }
  }
}

}  // namespace

extern const AttentionKernels kAttention;
const AttentionKernels kAttention = {1, kScoreRange, 4, false, prepare_queries, prepare_keys, scores, softmax, values};

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
