// The inner loops of every model step that is no matrix product, one table per instruction set.  The drivers of this
// folder split an operation into rows, key ranges or channel ranges and call these; nothing here knows threads.
//
// bf16 values travel as their bits.  Widths need be no multiple of 16 unless said.  No kernel allocates.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

inline constexpr int kMixCount = 24;        // coefficients of a hyper-connection site: 4 pre, 4 post, 16 comb
inline constexpr int kMixProducts = 6;      // coefficients are computed so many at a time
inline constexpr int kMixPartial = 32;      // floats of one partial result: the 24 products, the sum of squares, unused
inline constexpr int kMixFinishRows = 4;    // rows whose coefficients are finished together, at most
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
  const int32_t* offsets;  // [heads][groups]: -12 times the sum of the group's values
  const float* weights;    // [heads]
};

// One query row of attention and its scratch.  A kernel works on a range, so that threads may share a row; a phase
// starts when the one before it is complete.
struct AttentionRow {
  int heads;          // a multiple of the path's head_multiple
  int used_heads;     // of q and o; the others only fill up
  int64_t d;          // channels of a head, a multiple of 32, at most 512
  int64_t count;      // visible keys
  float scale;        // of the scores
  const float* sink;  // [heads]
  const uint16_t* q;  // [used_heads][d]
  uint16_t* o;        // [used_heads][d]
  // Decoded by the driver, in one of two ways that give the same bits; the other one is null.
  uint16_t* keys;    // [count rounded up to 32][d]
  float* wide_keys;  // [count][wide_key_stride(d)]: where few heads share a key, widening it is most of the work
  // What the kernels of one path keep for themselves; sizes below.
  float* queries;
  uint16_t* key_tiles;
  float* scores;
  uint16_t* weight_tiles;
  float* denominator;  // [heads]
};

// Rows of keys a power of two apart would share a few sets of the first-level cache.
inline constexpr int64_t wide_key_stride(int64_t d) {
  return d + 16;
}

inline constexpr int64_t kKeyRange = 32;      // keys are rounded up to a multiple of it
inline constexpr int64_t kChannelRange = 64;  // channel ranges begin at multiples of it; at most this long
inline constexpr int kHeadRange = 16;         // head ranges of values likewise

struct AttentionKernels {
  int head_multiple;  // heads that this path wants
  int key_range;      // key ranges begin at multiples of it; divides kKeyRange
  int head_range;     // head ranges of softmax likewise; divides kHeadRange
  bool tiles;         // needs keys, key_tiles [rounded count][d] and weight_tiles [rounded count][heads]
  // 1: queries [heads][d].
  void (*prepare_queries)(const AttentionRow& row);
  // 2, per key range after its keys are decoded: scores [heads][rounded count], in an order of the path's own.
  void (*prepare_keys)(const AttentionRow& row, int64_t first, int64_t count);
  void (*scores)(const AttentionRow& row, int64_t first, int64_t count);
  // 3: numerators (rounded to bf16) and denominators.
  void (*softmax)(const AttentionRow& row, int first_head, int heads);
  // 4: o.  With tiles a channel range may be longer than kChannelRange.
  void (*values)(const AttentionRow& row, int first_head, int heads, int64_t first_channel, int64_t channels);
};

// What a hyper-connection site is apart from its products.
struct MixFinish {
  int64_t chunks;  // of a row
  int64_t width;   // channels of a row
  const float* base;
  const float* scale;
  int iterations;
  float hc_eps;
  float norm_eps;
};

struct StepKernels {
  void (*exponential)(const float* x, int64_t n, float* y);  // e^x, the one that all kernels use
  // y = bf16(w (x r)), r of the row's mean square.
  void (*rms_norm)(const uint16_t* x, const uint16_t* weight, int64_t d, float eps, uint16_t* y);
  // Rotates the last `channels` of each head: x cos + swap(x) sin, cos = (c0, c0, c1, c1, ...), sin = (-s0, s0, -s1,
  // ...).
  void (*rope)(uint16_t* x, int64_t heads, int64_t head_dim, int64_t channels, const float* cos, const float* sin);
  void (*quantize_activation)(const uint16_t* x, int64_t k, uint16_t* y);  // k a multiple of 32

  // Channels [first, first + count) of a row of width `width`: the partial products [product, product + products) and,
  // with product 0, the partial sum of squares, for `rows` rows x + i * stride; partial + i * partial_stride has room
  // for kMixPartial floats.  count <= kMixChunk; product and products are multiples of kMixProducts.
  void (*mix_partial)(const uint16_t* x, int64_t stride, int64_t rows, const float* fn, int64_t width, int64_t first,
                      int64_t count, int product, int products, float* partial, int64_t partial_stride);
  // The coefficients of `rows` <= kMixFinishRows rows from their partial results, added in order.  pre, post, comb: of
  // each row.
  void (*mix_finish)(const float* partial, int64_t partial_stride, int64_t rows, const MixFinish& m, float* const* pre,
                     float* const* post, float* const* comb);
  // `count` channels of copies that lie d apart.
  void (*collapse)(const uint16_t* streams, const float* pre, int64_t d, int64_t count, uint16_t* x);
  void (*expand)(const uint16_t* y, const float* post, const float* comb, int64_t d, int64_t count, uint16_t* streams);
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
  void (*widen_fp8)(const uint8_t* record, int64_t channels, float* row);  // the same values in fp32
  void (*widen_main)(const uint8_t* record, int64_t channels, float* row);

  void (*unpack_index_query)(const uint8_t* records, int heads, int head_dim, int8_t* values, float* scales,
                             int32_t* offsets);
  // scores[r * score_stride + j] of `rows` queries and the kKeyTile keys; repeat a key to fill up.
  void (*index_scores)(const IndexQueryView* queries, int rows, int heads, int head_dim, const uint8_t* const* keys,
                       float* scores, int64_t score_stride);

  const AttentionKernels* attention;

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
const AttentionKernels& attention_kernels_amx();

}  // namespace deepinfer::cpu
