#include "ops/reference/weight_rows.h"

#include <array>

#include "tensor/formats.h"

namespace deepinfer::reference {
namespace {

std::array<float, 256> e4m3_values() {
  std::array<float, 256> values;
  for (int code = 0; code < 256; ++code) values[code] = e4m3_to_float(static_cast<uint8_t>(code));
  return values;
}

std::array<float, 16> e2m1_values() {
  std::array<float, 16> values;
  for (int code = 0; code < 16; ++code) values[code] = e2m1_to_float(static_cast<uint8_t>(code));
  return values;
}

}  // namespace

void decode_weight_row(const LinearWeight& weight, int64_t row, float* out) {
  static const std::array<float, 256> e4m3 = e4m3_values();
  static const std::array<float, 16> e2m1 = e2m1_values();
  const auto* bytes = static_cast<const uint8_t*>(weight.data);
  const int64_t k = weight.k;
  switch (weight.format) {
    case LinearWeight::Format::kFp8: {
      const uint8_t* scales = weight.scale + row / kFp8Group * ((k + kFp8Group - 1) / kFp8Group);
      for (int64_t i = 0; i < k; ++i) out[i] = e4m3[bytes[row * k + i]] * e8m0_to_float(scales[i / kFp8Group]);
      return;
    }
    case LinearWeight::Format::kFp4: {
      const uint8_t* scales = weight.scale + row * (k / kFp8Group);
      for (int64_t i = 0; i < k; i += 2) {
        const uint8_t pair = bytes[(row * k + i) / 2];
        const float scale = e8m0_to_float(scales[i / kFp8Group]);
        out[i] = e2m1[pair & 15] * scale;
        out[i + 1] = e2m1[pair >> 4] * scale;
      }
      return;
    }
    case LinearWeight::Format::kBf16: {
      const auto* values = static_cast<const bf16*>(weight.data) + row * k;
      for (int64_t i = 0; i < k; ++i) out[i] = to_float(values[i]);
      return;
    }
  }
}

std::vector<float> to_floats(const bf16* x, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out[i] = to_float(x[i]);
  return out;
}

}  // namespace deepinfer::reference
