#include "backends/cpu/products/tile_decode.h"

namespace deepinfer::cpu::amx {
namespace {

constexpr Fp8Tables make_fp8_tables() {
  Fp8Tables tables{};
  for (int place = 0; place < 16; ++place) {
    int exponent = 1, fraction = place & 7;  // fraction * 2^-9
    if (fraction == 0) continue;             // -0 too: a sign alone would wrap
    while ((fraction & 8) == 0) {
      fraction <<= 1;
      --exponent;
    }
    const int bits = (place & 8) << 12 | (exponent - 7 + 127 + 120) << 7 | (fraction & 7) << 4;
    tables.low[place] = static_cast<uint8_t>(bits);
    tables.high[place] = static_cast<uint8_t>(bits >> 8);
  }
  return tables;
}

constexpr Fp4Tables make_fp4_tables() {
  constexpr uint16_t kMagnitudes[8] = {0, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0};
  Fp4Tables tables{};
  for (int scale = 0; scale < 256; ++scale) {
    const int exponent = (scale < 2 ? 2 : scale > 252 ? 252 : scale) - 127;
    for (int code = 0; code < 32; ++code) {
      const int magnitude = kMagnitudes[code & 7], sign = code & 8;
      tables.of_scale[scale][code] =
          static_cast<uint16_t>(magnitude == 0 ? 0 : (magnitude + (exponent * 128)) | sign << 12);
    }
  }
  return tables;
}

}  // namespace

constinit const Fp8Tables kFp8Tables = make_fp8_tables();
constinit const Fp4Tables kFp4Tables = make_fp4_tables();

}  // namespace deepinfer::cpu::amx
