// The inner loops of every model step that is no matrix product, one table per instruction set.  The drivers of this
// folder split an operation into rows, key ranges or channel ranges and call these; nothing here knows threads.
//
// bf16 values travel as their bits.  Widths need be no multiple of 16 unless said.  No kernel allocates.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

inline constexpr int kMixCount = 24;        // coefficients of a hyper-connection site: 4 pre, 4 post, 16 comb
inline constexpr int kMixPartial = 32;      // floats of one partial result: the 24 products, the sum of squares, unused
inline constexpr int64_t kMixChunk = 1024;  // channels of one partial sum; the order of the whole sum follows from it
inline constexpr int kKeyTile = 16;         // index keys scored together
inline constexpr int64_t kDrawBlock = 64;   // tokens drawn together: ranges of draw start at multiples of it

// A prefix of the order (logit descending, id ascending): a token is in it when z > logit, or z == logit and id <=
// last_id.
struct LogitCut {
  float logit;
  int32_t last_id;
};

struct DrawRequest {
  const float* logits;  // of the whole row
  LogitCut cut;
  bool use_min_p;
  float min_p;
  float top;  // largest kept logit, for min_p
  float inverse_temperature;
  uint64_t seed;
  uint32_t position;
  uint32_t stream;
};

struct DrawResult {
  float key;  // -infinity: no token of the range may be drawn
  int32_t token;
  int64_t kept;
};

struct LogitStats {
  float top;  // largest logit below +infinity, -infinity if none is finite
  bool bad;   // a NaN or +infinity is present
};

// Index queries of one row, unpacked by unpack_index_query.
struct IndexQueryView {
  const int8_t* values;    // [heads][head_dim], doubled e2m1 values; 4-byte aligned
  const float* scales;     // [heads][groups]
  const int32_t* offsets;  // [heads][groups]: 12 times the sum of the group's values
  const float* weights;    // [heads]
};

struct StepKernels {
  // y = bf16(w (x r)), r of the row's mean square.
  void (*rms_norm)(const uint16_t* x, const uint16_t* weight, int64_t d, float eps, uint16_t* y);
  // Rotates the last `channels` of each head: x cos + swap(x) sin, cos = (c0, c0, c1, c1, ...), sin = (-s0, s0, -s1,
  // ...).
  void (*rope)(uint16_t* x, int64_t heads, int64_t head_dim, int64_t channels, const float* cos, const float* sin);
  void (*quantize_activation)(const uint16_t* x, int64_t k, uint16_t* y);  // k a multiple of 32

  // Channels [first, first + count) of a row of width `width`: 24 partial products and the partial sum of squares, for
  // `rows` rows x + i * stride; partial + i * partial_stride receives kMixPartial floats.  count <= kMixChunk.
  void (*mix_partial)(const uint16_t* x, int64_t stride, int64_t rows, const float* fn, int64_t width, int64_t first,
                      int64_t count, float* partial, int64_t partial_stride);
  // The coefficients of one row from its partial results, added in order.
  void (*mix_finish)(const float* partial, int64_t chunks, int64_t width, const float* base, const float* scale,
                     int iterations, float hc_eps, float norm_eps, float* pre, float* post, float* comb);
  void (*collapse)(const uint16_t* streams, const float* pre, int64_t d, uint16_t* x);
  void (*expand)(const uint16_t* y, const float* post, const float* comb, int64_t d, uint16_t* streams);
  void (*mean)(const uint16_t* streams, int64_t d, uint16_t* x);

  void (*engram_row)(const uint8_t* values, const uint8_t* scales, int64_t width,
                     uint16_t* e);  // width a multiple of 32
  void (*engram_mix)(const uint16_t* kv, const uint16_t* query_weight, const uint16_t* key_weight, float eps,
                     float factor, int64_t d, uint16_t* streams);

  // latent = bf16 of the pooled pair, not normed.
  void (*pool_pair)(const float* even_gate, const float* even_value, const float* odd_gate, const float* odd_value,
                    int64_t width, uint16_t* latent);
  void (*encode_fp8)(const uint16_t* x, int64_t channels, uint8_t* record);    // channels a multiple of 32
  void (*encode_main)(const uint16_t* x, int64_t channels, uint8_t* record);   // a multiple of 16
  void (*encode_index)(const uint16_t* x, int64_t channels, uint8_t* record);  // a multiple of 32
  void (*decode_fp8)(const uint8_t* record, int64_t channels, uint16_t* row);
  void (*decode_main)(const uint8_t* record, int64_t channels, uint16_t* row);

  void (*unpack_index_query)(const uint8_t* records, int heads, int head_dim, int8_t* values, float* scales,
                             int32_t* offsets);
  // scores[r * score_stride + j] of `rows` queries and the kKeyTile keys; repeat a key to fill up.
  void (*index_scores)(const IndexQueryView* queries, int rows, int heads, int head_dim, const uint8_t* const* keys,
                       float* scores, int64_t score_stride);

  // Attention of one query row; D = head_dim, a multiple of 32; s and p are [heads][stride], stride a multiple of 16.
  void (*widen)(const uint16_t* x, int64_t count, float* y);
  // s[h][j] = (q_h . key_j) scale for `count` keys, rows of `keys` [count][D].
  void (*attention_scores)(const float* q, int heads, int64_t d, const uint16_t* keys, int64_t count, float scale,
                           float* s, int64_t stride);
  // Turns `count` scores of one head into bf16-rounded numerators, zero up to the next multiple of 16; gives the
  // denominator.
  float (*attention_softmax)(float* s, int64_t count, float sink);
  // o[h][c] for heads [0, heads) and channels [first, first + channels): the weighted sum of keys in order, over
  // denominator[h].  channels a multiple of 32, at most 64; o points at channel 0 of head 0, rows of D.
  void (*attention_values)(const float* p, int64_t stride, int heads, const uint16_t* keys, int64_t count, int64_t d,
                           int64_t first, int64_t channels, const float* denominator, uint16_t* o);

  void (*add_rows)(const float* x, int64_t n, float* y);
  LogitStats (*logit_stats)(const float* z, int64_t n);
  void (*mask_logits)(const uint32_t* allowed, float* z, int64_t n);
  int64_t (*find_first)(const float* z, int64_t n, float value);  // n if absent; -0 equals +0
  void (*exp_weights)(const float* z, int64_t n, float top, float r,
                      float* e);  // exp((z - top) r) of specs/dspark.md 5.2b
  DrawResult (*draw)(const DrawRequest& request, int64_t begin, int64_t end);
  float (*natural_log)(float x);  // the ln of 5.2b
};

const StepKernels& step_kernels_avx2();
const StepKernels& step_kernels_avx512();

}  // namespace deepinfer::cpu
