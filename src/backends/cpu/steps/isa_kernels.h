// The kernels of one instruction set, for its table; contracts in kernels.h.  Included by kernel sources only.
#pragma once

#include "backends/cpu/steps/kernels.h"
#include "backends/cpu/steps/simd.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

void exponentials(const float* x, int64_t n, float* y);
void rms_norm(const uint16_t* x, const uint16_t* weight, int64_t d, float eps, uint16_t* y);
void rope(uint16_t* x, int64_t heads, int64_t head_dim, int64_t channels, const float* cos, const float* sin);
void quantize_activation(const uint16_t* x, int64_t k, uint16_t* y);
void mix_partial(const uint16_t* x, int64_t stride, int64_t rows, const float* fn, int64_t width, int64_t first,
                 int64_t count, int product, int products, float* partial, int64_t partial_stride);
void mix_finish(const float* partial, int64_t partial_stride, int64_t rows, const MixFinish& m, float* const* pre,
                float* const* post, float* const* comb);
void collapse(const uint16_t* streams, const float* pre, int64_t d, int64_t count, uint16_t* x);
void expand(const uint16_t* y, const float* post, const float* comb, int64_t d, int64_t count, uint16_t* streams);
void mean(const uint16_t* streams, int64_t d, uint16_t* x);
void engram_row(const uint8_t* values, const uint8_t* scales, int64_t width, uint16_t* e);
void engram_mix(const uint16_t* kv, const uint16_t* query_weight, const uint16_t* key_weight, float eps, float factor,
                int64_t d, uint16_t* streams);
void pool_pair(const float* even_gate, const float* even_value, const float* odd_gate, const float* odd_value,
               int64_t width, uint16_t* latent);
void encode_fp8(const uint16_t* x, int64_t channels, uint8_t* record);
void encode_main(const uint16_t* x, int64_t channels, uint8_t* record);
void encode_index(const uint16_t* x, int64_t channels, uint8_t* record);
void decode_fp8(const uint8_t* record, int64_t channels, uint16_t* row);
void decode_main(const uint8_t* record, int64_t channels, uint16_t* row);
void widen_fp8(const uint8_t* record, int64_t channels, float* row);
void widen_main(const uint8_t* record, int64_t channels, float* row);
void unpack_index_query(const uint8_t* records, int heads, int head_dim, int8_t* values, float* scales,
                        int32_t* offsets);
void index_scores(const IndexQueryView* queries, int rows, int heads, int head_dim, const uint8_t* const* keys,
                  float* scores, int64_t score_stride);
extern const AttentionKernels kAttention;
void add_rows(const float* x, int64_t n, float* y);
LogitStats logit_stats(const float* z, int64_t n);
void mask_logits(const uint32_t* allowed, float* z, int64_t n);
int64_t find_first(const float* z, int64_t n, float value);
void exp_weights(const float* z, int64_t n, float top, float r, float* e);
DrawResult draw(const DrawRequest& request, int64_t begin, int64_t end);
float natural_log(float x);

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
