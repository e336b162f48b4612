// The quantised records of section 6, byte for byte as tensor/formats.h.
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

namespace {

// Values of the e4m3 codes 0 .. 126 (127 is NaN), for scales.
struct ScaleTable {
  float value[128];
  constexpr ScaleTable() : value() {
    for (int code = 0; code < 127; ++code) {
      float step = 0x1p-9f;
      for (int e = 1; e < code / 8; ++e) step *= 2;
      value[code] = (code < 8 ? static_cast<float>(code) : static_cast<float>(8 + code % 8)) * step;
    }
    value[127] = __builtin_nanf("");
  }
};
constexpr ScaleTable kScaleValues;

float scale_of_code(uint8_t code) {
  const float value = kScaleValues.value[code & 0x7F];
  return (code & 0x80) != 0 ? -value : value;
}

// The E8M0 code of the smallest power of two >= t, for a normal t > 0.
uint32_t power_of_two_ceiling(float t) {
  return (bits_of_float(t) + 0x7FFFFFu) >> 23;
}

// Nearest e4m3 codes of magnitudes up to 448.
DI_INLINE I e4m3_codes(F magnitude) {
  const F aligner = splat(16384.0f);  // its last place is 2^-9, the step of subnormal codes
  const I bits = as_int(magnitude);
  const I odd = bit_and(shift_right<20>(bits), splat_int(1));
  const I normal = shift_right<20>(bits + (odd + splat_int(0x7FFFF))) - splat_int(120 << 3);
  const I small = as_int(magnitude + aligner) - as_int(aligner);
  return select(less(magnitude, splat(0.015625f)), small, normal);
}

// Nearest e2m1 codes, sign included; ties go to the even mantissa.
DI_INLINE I e2m1_codes(F x) {
  const F magnitude = minimum(absolute(x), splat(6.0f));
  const F aligner = splat(4194304.0f);  // its last place is 0.5
  const I bits = as_int(magnitude);
  const I odd = bit_and(shift_right<22>(bits), splat_int(1));
  const I normal = shift_right<22>(bits + (odd + splat_int(0x1FFFFF))) - splat_int(126 << 1);
  const I small = as_int(magnitude + aligner) - as_int(aligner);
  const I code = select(less(magnitude, splat(1.0f)), small, normal);
  return bit_or(code, bit_and(shift_right<28>(as_int(x)), splat_int(8)));
}

// 16 codes as 8 bytes, even channel in the low nibble.
DI_INLINE void store_nibbles(uint8_t* to, I codes) {
  uint8_t bytes[kLanes];
  store_u8(bytes, codes);
  uint64_t halves[2];
  memcpy(halves, bytes, sizeof(halves));
  for (int i = 0; i < 2; ++i) {
    uint64_t x = halves[i];
    x = (x | x >> 4) & 0x00FF00FF00FF00FFull;
    x = (x | x >> 8) & 0x0000FFFF0000FFFFull;
    const auto word = static_cast<uint32_t>(x | x >> 16);
    memcpy(to + 4 * i, &word, sizeof(word));
  }
}

DI_INLINE F e4m3_values(I code) {
  const I magnitude = bit_and(code, splat_int(0x7F));
  const I normal = shift_left<20>(magnitude) + splat_int(120 << 23);
  const I small = as_int(to_float(magnitude) * splat(0x1p-9f));
  const I sign = shift_left<24>(bit_and(code, splat_int(0x80)));
  return as_float(bit_or(select(greater(splat_int(8), magnitude), small, normal), sign));
}

}  // namespace

void encode_fp8(const uint16_t* x, int64_t channels, uint8_t* record) {
  for (int64_t i = 0; i < channels; i += 32) {
    const F values[2] = {load_bf16(x + i), load_bf16(x + i + kLanes)};
    float largest = horizontal_maximum(maximum(absolute(values[0]), absolute(values[1])));
    largest = largest < 1e-4f ? 1e-4f : largest;
    const uint32_t scale = power_of_two_ceiling(largest * (1.0f / 448.0f));
    const F multiply = splat(float_of_bits((254u - scale) << 23));
    for (int part = 0; part < 2; ++part) {
      const F scaled = values[part] * multiply;
      const I sign = bit_and(shift_right<24>(as_int(scaled)), splat_int(0x80));
      store_u8(record + i + part * kLanes, bit_or(e4m3_codes(minimum(absolute(scaled), splat(448.0f))), sign));
    }
    record[channels + i / 32] = static_cast<uint8_t>(scale);
  }
}

void encode_main(const uint16_t* x, int64_t channels, uint8_t* record) {
  for (int64_t i = 0; i < channels; i += 16) {
    const F values = load_bf16(x + i);
    float largest = horizontal_maximum(absolute(values));
    largest = largest < 6 * 0x1p-9f ? 6 * 0x1p-9f : largest;
    const F quotient = minimum(splat(largest * (1.0f / 6.0f)), splat(448.0f));
    uint8_t codes[kLanes];
    store_u8(codes, e4m3_codes(quotient));
    // A product with the rounded reciprocal, not a quotient: they differ on ties (section 6.3).
    store_nibbles(record + i / 2, e2m1_codes(values * splat(1.0f / kScaleValues.value[codes[0]])));
    record[channels / 2 + i / 16] = codes[0];
  }
}

void encode_index(const uint16_t* x, int64_t channels, uint8_t* record) {
  for (int64_t i = 0; i < channels; i += 32) {
    const F values[2] = {load_bf16(x + i), load_bf16(x + i + kLanes)};
    float largest = horizontal_maximum(maximum(absolute(values[0]), absolute(values[1])));
    largest = largest < 6 * 0x1p-126f ? 6 * 0x1p-126f : largest;
    const uint32_t scale = power_of_two_ceiling(largest * (1.0f / 6.0f));
    const F multiply = splat(float_of_bits((254u - scale) << 23));
    store_nibbles(record + i / 2, e2m1_codes(values[0] * multiply));
    store_nibbles(record + i / 2 + 8, e2m1_codes(values[1] * multiply));
    record[channels / 2 + i / 32] = static_cast<uint8_t>(scale);
  }
}

#if defined(__AVX512F__)
// Two channels a dword: half the work of sixteen fp32 lanes.

namespace {

// bf16 bits of every e2m1 value under every e4m3 scale.
struct MainValues {
  alignas(64) uint16_t bits[256][16];
  constexpr MainValues() : bits() {
    constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int scale = 0; scale < 256; ++scale) {
      for (int code = 0; code < 16; ++code) {
        // Exact in bf16; the scale 127 is a NaN, and constant expressions do not multiply by one.
        const float magnitude =
            (scale & 127) == 127 ? kScaleValues.value[127] : kScaleValues.value[scale & 127] * kValues[code & 7];
        const uint32_t sign = ((scale >> 7) ^ (code >> 3)) & 1;
        bits[scale][code] = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, magnitude) >> 16 | sign << 15);
      }
    }
  }
};
constexpr MainValues kMainValues;

// bf16 bits of the subnormal e4m3 values 0 .. 7 times 2^9.
constexpr uint16_t kSmallValues[32] = {0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0};

}  // namespace

void decode_fp8(const uint8_t* record, int64_t channels, uint16_t* row) {
  const __m512i small_values = _mm512_loadu_si512(kSmallValues);
  for (int64_t i = 0; i < channels; i += 32) {
    const int exponent = record[channels + i / 32] - 127;  // the scales of written records keep bf16 exponents in range
    const __m512i codes = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(record + i)));
    // The sign, and seeeemmm's other bits four places up: but for the exponent's bias a bf16 number.
    const __m512i bits = _mm512_and_si512(_mm512_slli_epi16(codes, 4), _mm512_set1_epi16(static_cast<int16_t>(0x87F0)));
    const __mmask32 not_zero = _mm512_test_epi16_mask(bits, _mm512_set1_epi16(0x07F0));
    __m512i value =
        _mm512_mask_add_epi16(bits, not_zero, bits, _mm512_set1_epi16(static_cast<int16_t>((120 + exponent) * 128)));
    const __mmask32 small = not_zero & _mm512_testn_epi16_mask(bits, _mm512_set1_epi16(0x0780));
    if (small != 0) [[unlikely]] {  // subnormal codes
      const __m512i magnitude = _mm512_permutexvar_epi16(_mm512_srli_epi16(bits, 4), small_values);
      const __m512i sign = _mm512_and_si512(bits, _mm512_set1_epi16(static_cast<int16_t>(0x8000)));
      const __m512i scaled = _mm512_add_epi16(magnitude, _mm512_set1_epi16(static_cast<int16_t>((exponent - 9) * 128)));
      value = _mm512_mask_mov_epi16(value, small, _mm512_or_si512(scaled, sign));
    }
    _mm512_storeu_si512(row + i, value);
  }
}

void decode_main(const uint8_t* record, int64_t channels, uint16_t* row) {
  const uint8_t* scales = record + channels / 2;
  const __m512i nibbles = _mm512_set1_epi16(15);
  // The upper half of each vector looks its values up behind those of the lower half's scale.
  const __m512i upper = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(16), 1);
  int64_t i = 0;
  for (; i + 32 <= channels; i += 32) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(record + i / 2)));
    const __m512i pairs = _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
    const __m512i index = _mm512_or_si512(_mm512_and_si512(pairs, nibbles), upper);
    const __m256i* first = reinterpret_cast<const __m256i*>(kMainValues.bits[scales[i / 16]]);
    const __m256i* second = reinterpret_cast<const __m256i*>(kMainValues.bits[scales[i / 16 + 1]]);
    const __m512i table =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_load_si256(first)), _mm256_load_si256(second), 1);
    _mm512_storeu_si512(row + i, _mm512_permutexvar_epi16(index, table));
  }
  for (; i < channels; i += 16) {
    store_bf16_exact(row + i, e2m1_values(load_nibbles(record + i / 2)) * splat(scale_of_code(scales[i / 16])));
  }
}
#else
// Sixteen 16-bit lanes, as above.
void decode_fp8(const uint8_t* record, int64_t channels, uint16_t* row) {
  // bf16 bits of the subnormal e4m3 values 0 .. 7 times 2^9.
  const __m256i small_values =
      _mm256_broadcastsi128_si256(_mm_setr_epi16(0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0));
  const __m256i low7 = _mm256_set1_epi16(0x7F), zero = _mm256_setzero_si256();
  for (int64_t i = 0; i < channels; i += 16) {
    const int exponent = record[channels + i / 32] - 127;  // the scales of written records keep bf16 exponents in range
    const __m256i codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(record + i)));
    const __m256i magnitude = _mm256_and_si256(codes, low7);
    const __m256i normal = _mm256_add_epi16(_mm256_slli_epi16(magnitude, 4),
                                            _mm256_set1_epi16(static_cast<int16_t>((120 + exponent) << 7)));
    // The two bytes of word m of the table.
    const __m256i place =
        _mm256_add_epi16(_mm256_mullo_epi16(magnitude, _mm256_set1_epi16(0x0202)), _mm256_set1_epi16(0x0100));
    const __m256i small = _mm256_add_epi16(_mm256_shuffle_epi8(small_values, place),
                                           _mm256_set1_epi16(static_cast<int16_t>((exponent - 9) * 128)));
    const __m256i value = _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi16(_mm256_set1_epi16(8), magnitude));
    const __m256i sign = _mm256_slli_epi16(_mm256_andnot_si256(low7, codes), 8);
    const __m256i bits = _mm256_or_si256(_mm256_andnot_si256(_mm256_cmpeq_epi16(magnitude, zero), value), sign);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + i), bits);
  }
}

void decode_main(const uint8_t* record, int64_t channels, uint16_t* row) {
  const uint8_t* scales = record + channels / 2;
  for (int64_t i = 0; i < channels; i += 16) {
    store_bf16_exact(row + i, e2m1_values(load_nibbles(record + i / 2)) * splat(scale_of_code(scales[i / 16])));
  }
}
#endif

// 32 e4m3 codes as the fp16 bits of their values times 2^-8: an e4m3 number's bits shifted into place, subnormals
// included.  Through memory: conversion from there leaves the shuffle port free.
namespace {
DI_INLINE void widen_fp8_group(const uint8_t* codes, float factor, float* to) {
  alignas(64) uint16_t half[32];
#if defined(__AVX512F__)
  const __m512i bits = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
  const __m512i mask = _mm512_set1_epi16(static_cast<int16_t>(0xBF80));
  _mm512_store_si512(half, _mm512_and_si512(_mm512_slli_epi16(bits, 7), mask));
  __asm__("" : "+m"(half));
  for (int i = 0; i < 32; i += 16) {
    const __m512 value = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(half + i)));
    store(to + i, F{value} * splat(factor));
  }
#else
  const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(0xBF80));
  for (int i = 0; i < 32; i += 16) {
    const __m256i bits = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(half + i), _mm256_and_si256(_mm256_slli_epi16(bits, 7), mask));
  }
  __asm__("" : "+m"(half));
  for (int i = 0; i < 32; i += 16) {
    const F value = {_mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(half + i))),
                     _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(half + i + 8)))};
    store(to + i, value * splat(factor));
  }
#endif
}
}  // namespace

void widen_fp8(const uint8_t* record, int64_t channels, float* row) {
  for (int64_t i = 0; i < channels; i += 32) {
    const uint32_t scale = record[channels + i / 32];
    if (scale <= 246) [[likely]] {
      widen_fp8_group(record + i, float_of_bits((scale + 8) << 23), row + i);  // 2^(scale - 127 + 8)
      continue;
    }
    widen_fp8_group(record + i, 0x1p127f, row + i);
    const F rest = splat(static_cast<float>(1u << (scale - 246)));
    for (int64_t j = i; j < i + 32; j += kLanes) store(row + j, load(row + j) * rest);
  }
}

void widen_main(const uint8_t* record, int64_t channels, float* row) {
  const uint8_t* scales = record + channels / 2;
  for (int64_t i = 0; i < channels; i += 16) {
    store(row + i, e2m1_values(load_nibbles(record + i / 2)) * splat(scale_of_code(scales[i / 16])));
  }
}

// Of a file's bytes: NaN codes stay NaN, and the smallest scale is 2^-127.
void engram_row(const uint8_t* values, const uint8_t* scales, int64_t width, uint16_t* e) {
  for (int64_t i = 0; i < width; i += kLanes) {
    const uint32_t code = scales[i / 32];
    const uint32_t bits = code == 0 ? 0x00400000u : code == 255 ? 0x7FC00000u : code << 23;
    const I codes = load_u8(values + i);
    const I sign = shift_left<24>(bit_and(codes, splat_int(0x80)));
    const M not_a_number = equal(bit_and(codes, splat_int(0x7F)), splat_int(0x7F));
    const F value = select(not_a_number, as_float(bit_or(splat_int(0x7FC00000), sign)), e4m3_values(codes));
    store_bf16(e + i, value * splat(float_of_bits(bits)));
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
