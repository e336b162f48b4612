#include "tensor/formats.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

namespace deepinfer {
namespace {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kMantissaMask = 0x007FFFFFu;

constexpr float power_of_two(int exponent) {  // -126 .. 127
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// The code of a magnitude, given by its bits, in a format of kMantissa bits whose smallest normal number is
// 2^kMinExponent.  The step at the magnitude is 2^(exponent - kMantissa), in the subnormal range that of kMinExponent;
// adding a float whose last place is that step rounds to nearest even and counts the steps in its low bits.  Without
// branches, so that compilers vectorise it.
template <int kMantissa, int kMinExponent>
inline uint32_t round_magnitude(uint32_t bits) {
  constexpr int32_t kSmallestNormal = (kMinExponent + 127) << 23;
  const int32_t exponent = std::max(static_cast<int32_t>(bits & ~kMantissaMask), kSmallestNormal);
  const int32_t aligner = exponent + ((23 - kMantissa) << 23);
  const float sum = std::bit_cast<float>(bits) + std::bit_cast<float>(aligner);
  const int32_t steps = std::bit_cast<int32_t>(sum) - aligner;
  return static_cast<uint32_t>(steps + ((exponent - kSmallestNormal) >> (23 - kMantissa)));
}

// The bits of min(|value|, limit); a NaN gives the limit.
inline uint32_t magnitude_up_to(float value, float limit) {
  return static_cast<uint32_t>(
      std::min(static_cast<int32_t>(std::bit_cast<uint32_t>(value) & ~kSignBit), std::bit_cast<int32_t>(limit)));
}

inline uint8_t encode_e4m3(float value) {
  const uint32_t sign = (std::bit_cast<uint32_t>(value) >> 24) & 0x80u;
  return static_cast<uint8_t>(round_magnitude<3, -6>(magnitude_up_to(value, 448.0f)) | sign);
}

inline uint8_t encode_e2m1(float value) {
  const uint32_t sign = (std::bit_cast<uint32_t>(value) >> 28) & 0x8u;
  return static_cast<uint8_t>(round_magnitude<1, 0>(magnitude_up_to(value, 6.0f)) | sign);
}

constexpr std::array<float, 256> kE4m3Values = [] {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < 256; ++code) {
    const int exponent = static_cast<int>((code >> 3) & 15u);
    const float mantissa = static_cast<float>(code & 7u);
    float value = exponent == 0 ? mantissa * power_of_two(-9) : (8.0f + mantissa) * power_of_two(exponent - 10);
    if ((code & 0x7Fu) == 0x7Fu) value = std::numeric_limits<float>::quiet_NaN();
    values[code] = (code & 0x80u) != 0 ? -value : value;
  }
  return values;
}();

constexpr std::array<float, 16> kE2m1Values = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

inline float decode_e8m0(uint8_t code) {
  if (code == 0) return std::bit_cast<float>(0x00400000u);    // 2^-127 is subnormal
  if (code == 255) return std::bit_cast<float>(0x7FC00000u);  // NaN
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

// The E8M0 code of the smallest power of two >= t, for a normal t > 0.
inline uint32_t power_of_two_ceiling(float t) {
  return (std::bit_cast<uint32_t>(t) + kMantissaMask) >> 23;
}

// 1 / 2^(code - 127), exact, for codes 1 .. 253: multiplying by it equals dividing by the scale.
inline float reciprocal_of_scale(uint32_t code) {
  return std::bit_cast<float>((254u - code) << 23);
}

inline float widen(float value) {
  return value;
}
inline float widen(bf16 value) {
  return to_float(value);
}

// Largest magnitude of kGroup values.  Compared as integers (equal order for magnitudes), which compilers vectorise.
template <int kGroup, typename T>
inline float largest_magnitude(const T* x) {
  int32_t largest = 0;
  for (int i = 0; i < kGroup; ++i) {
    largest = std::max(largest, static_cast<int32_t>(std::bit_cast<uint32_t>(widen(x[i])) & ~kSignBit));
  }
  return std::bit_cast<float>(largest);
}

template <typename T>
inline void encode_fp8(const T* x, int64_t channels, uint8_t* record) {
  uint8_t* scales = record + channels;
  for (int64_t group = 0; group < channels / kFp8Group; ++group) {
    const T* in = x + group * kFp8Group;
    const float largest = std::max(largest_magnitude<kFp8Group>(in), 1e-4f);
    const uint32_t scale = power_of_two_ceiling(largest * (1.0f / 448.0f));
    const float reciprocal = reciprocal_of_scale(scale);
    uint8_t codes[kFp8Group];  // not the record itself: bytes may alias the input
    for (int i = 0; i < kFp8Group; ++i) codes[i] = encode_e4m3(widen(in[i]) * reciprocal);
    std::memcpy(record + group * kFp8Group, codes, sizeof codes);
    scales[group] = static_cast<uint8_t>(scale);
  }
}

// kGroup values times factor as e2m1, two a byte, even channel in the low nibble.
template <int kGroup>
inline void encode_e2m1_group(const bf16* in, float factor, uint8_t* out) {
  uint8_t codes[kGroup];
  for (int i = 0; i < kGroup; ++i) codes[i] = encode_e2m1(to_float(in[i]) * factor);
  for (int i = 0; i < kGroup / 2; ++i) out[i] = static_cast<uint8_t>(codes[2 * i] | (codes[2 * i + 1] << 4));
}

template <int kGroup, typename T>
inline void decode_e2m1_group(const uint8_t* in, float scale, T* out) {
  for (int i = 0; i < kGroup / 2; ++i) {
    const float low = kE2m1Values[in[i] & 15u] * scale;
    const float high = kE2m1Values[in[i] >> 4] * scale;
    if constexpr (std::is_same_v<T, bf16>) {
      out[2 * i] = to_bf16(low);
      out[2 * i + 1] = to_bf16(high);
    } else {
      out[2 * i] = low;
      out[2 * i + 1] = high;
    }
  }
}

}  // namespace

float e4m3_to_float(uint8_t code) {
  return kE4m3Values[code];
}
float e2m1_to_float(uint8_t code) {
  return kE2m1Values[code & 15u];
}
float e8m0_to_float(uint8_t code) {
  return decode_e8m0(code);
}
uint8_t e4m3_from_float(float value) {
  return encode_e4m3(value);
}
uint8_t e2m1_from_float(float value) {
  return encode_e2m1(value);
}

void encode_fp8_row(const float* x, int64_t channels, uint8_t* record) {
  encode_fp8(x, channels, record);
}
void encode_fp8_row(const bf16* x, int64_t channels, uint8_t* record) {
  encode_fp8(x, channels, record);
}

void decode_fp8_row(const uint8_t* record, int64_t channels, bf16* out) {
  const uint8_t* scales = record + channels;
  for (int64_t group = 0; group < channels / kFp8Group; ++group) {
    const float scale = decode_e8m0(scales[group]);
    for (int64_t i = group * kFp8Group; i < (group + 1) * kFp8Group; ++i) {
      out[i] = to_bf16(kE4m3Values[record[i]] * scale);
    }
  }
}

void encode_main_kv_row(const bf16* x, int64_t channels, uint8_t* record) {
  uint8_t* scales = record + channels / 2;
  for (int64_t group = 0; group < channels / kMainKvGroup; ++group) {
    const bf16* in = x + group * kMainKvGroup;
    const float largest = std::max(largest_magnitude<kMainKvGroup>(in), 6 * power_of_two(-9));
    const uint8_t scale = encode_e4m3(largest * (1.0f / 6.0f));
    // A product with the rounded reciprocal, not a quotient: they differ on ties (section 6.3).
    encode_e2m1_group<kMainKvGroup>(in, 1.0f / kE4m3Values[scale], record + group * kMainKvGroup / 2);
    scales[group] = scale;
  }
}

void decode_main_kv_row(const uint8_t* record, int64_t channels, bf16* out) {
  const uint8_t* scales = record + channels / 2;
  for (int64_t group = 0; group < channels / kMainKvGroup; ++group) {
    decode_e2m1_group<kMainKvGroup>(record + group * kMainKvGroup / 2, kE4m3Values[scales[group]],
                                    out + group * kMainKvGroup);
  }
}

void encode_index_row(const bf16* x, int64_t channels, uint8_t* record) {
  uint8_t* scales = record + channels / 2;
  for (int64_t group = 0; group < channels / kIndexGroup; ++group) {
    const bf16* in = x + group * kIndexGroup;
    const float largest = std::max(largest_magnitude<kIndexGroup>(in), 6 * power_of_two(-126));
    const uint32_t scale = power_of_two_ceiling(largest * (1.0f / 6.0f));
    encode_e2m1_group<kIndexGroup>(in, reciprocal_of_scale(scale), record + group * kIndexGroup / 2);
    scales[group] = static_cast<uint8_t>(scale);
  }
}

void decode_index_row(const uint8_t* record, int64_t channels, bf16* out) {
  const uint8_t* scales = record + channels / 2;
  for (int64_t group = 0; group < channels / kIndexGroup; ++group) {
    decode_e2m1_group<kIndexGroup>(record + group * kIndexGroup / 2, decode_e8m0(scales[group]),
                                   out + group * kIndexGroup);
  }
}

void decode_fp8_weight_row(const uint8_t* weights, const uint8_t* scales, int64_t columns, float* out) {
  for (int64_t first = 0; first < columns; first += kFp8Group) {
    const float scale = decode_e8m0(scales[first / kFp8Group]);
    const int64_t end = std::min<int64_t>(first + kFp8Group, columns);
    for (int64_t i = first; i < end; ++i) out[i] = kE4m3Values[weights[i]] * scale;
  }
}

void decode_fp4_weight_row(const uint8_t* weights, const uint8_t* scales, int64_t columns, float* out) {
  for (int64_t group = 0; group < columns / kFp8Group; ++group) {
    decode_e2m1_group<kFp8Group>(weights + group * kFp8Group / 2, decode_e8m0(scales[group]), out + group * kFp8Group);
  }
}

}  // namespace deepinfer
