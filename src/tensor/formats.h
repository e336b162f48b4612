// The quantised number formats of the model, in plain C++ (specs/v41-model.md section 6).  Every backend's quantiser
// gives these bytes.  A record is the data bytes of one row, then its scale bytes; reading it back to bf16 is exact.
// Values that round to zero keep their sign.  Inputs must be finite (a NaN gives an unspecified record, no crash).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace deepinfer {

inline constexpr int kFp8Group = 32;      // channels per E8M0 scale of activations, window rows and weights
inline constexpr int kMainKvGroup = 16;   // channels per e4m3 scale of compressed rows
inline constexpr int kIndexGroup = 32;    // channels per E8M0 scale of index keys and queries

// Bytes of a record of `channels` values.
constexpr int64_t fp8_record_bytes(int64_t channels) { return channels + channels / kFp8Group; }               // 528 for 512
constexpr int64_t main_kv_record_bytes(int64_t channels) { return channels / 2 + channels / kMainKvGroup; }    // 288 for 512
constexpr int64_t index_record_bytes(int64_t channels) { return channels / 2 + channels / kIndexGroup; }       // 68 for 128

float e4m3_to_float(uint8_t code);  // 0x7F and 0xFF are NaN
float e2m1_to_float(uint8_t code);  // low 4 bits
float e8m0_to_float(uint8_t code);  // 2^(code - 127); 255 is NaN
uint8_t e4m3_from_float(float value);  // round to nearest even, clamped to +-448
uint8_t e2m1_from_float(float value);  // round to nearest even, clamped to +-6

// Activations and window rows, section 6.1: per 32 channels, e4m3 with a power-of-two scale.
// channels is a multiple of 32.
void encode_fp8_row(const float* x, int64_t channels, uint8_t* record);
void encode_fp8_row(const bf16* x, int64_t channels, uint8_t* record);
void decode_fp8_row(const uint8_t* record, int64_t channels, bf16* out);

// Compressed main KV, section 6.3: per 16 channels, e2m1 with an e4m3 scale.  channels is a multiple of 16.
void encode_main_kv_row(const bf16* x, int64_t channels, uint8_t* record);
void decode_main_kv_row(const uint8_t* record, int64_t channels, bf16* out);

// Index keys and queries, section 6.4: per 32 channels, e2m1 with a power-of-two scale.  channels is a multiple of 32.
void encode_index_row(const bf16* x, int64_t channels, uint8_t* record);
void decode_index_row(const uint8_t* record, int64_t channels, bf16* out);

// One row of a quantised weight to fp32 (section 5).  `scales` points at the E8M0 bytes of the row's group: for an FP8
// weight [N, K] with scale [ceil(N/32), ceil(K/32)] that is row n / 32 of the scales, for an FP4 weight row n.
// FP8: one byte a weight, any number of columns.  FP4: e2m1, two a byte, low nibble first; columns a multiple of 32.
void decode_fp8_weight_row(const uint8_t* weights, const uint8_t* scales, int64_t columns, float* out);
void decode_fp4_weight_row(const uint8_t* weights, const uint8_t* scales, int64_t columns, float* out);

}  // namespace deepinfer
