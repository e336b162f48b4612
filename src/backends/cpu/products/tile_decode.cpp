#include "backends/cpu/products/tile_decode.h"

namespace deepinfer::cpu::amx {
namespace {

constexpr Fp8Tables make_fp8_tables() {
  Fp8Tables tables{};
  for (int code = 1; code < 128; ++code) {
    int exponent = code >> 3, fraction = code & 7;
    if (exponent == 0) {  // subnormal: fraction * 2^-9
      exponent = 1;
      while ((fraction & 8) == 0) {
        fraction <<= 1;
        --exponent;
      }
      fraction &= 7;
    }
    const int bits = (exponent - 7 + 127 + 120) << 7 | fraction << 4;
    tables.low[code] = static_cast<uint8_t>(bits);
    tables.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  return tables;
}

}  // namespace

constinit const Fp8Tables kFp8Tables = make_fp8_tables();

}  // namespace deepinfer::cpu::amx
