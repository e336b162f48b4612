#include "backends/cuda/layout/strip_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr uint8_t kHighestScale = 134;  // 2^7: 2^120 more must be a bf16 number

// Two e4m3 bytes in 16 bits: the first where a bf16 number has its sign, the low half of its exponent and the upper
// half of its mantissa; the second in what is left, a shift by 4 either way from the same places (device/fp8.cuh).
uint16_t interleaved(uint8_t first, uint8_t second) {
  const int ready = (first & 0x80) << 8 | (first & 0x7f) << 4;     // bits 15, 10 to 4
  const int to_the_left = (second & 0x80) << 4 | (second & 0x0f);  // bits 11, 3 to 0
  const int to_the_right = (second & 0x70) << 8;                   // bits 14 to 12
  return static_cast<uint16_t>(ready | to_the_left | to_the_right);
}

Status check_numbers(const LinearWeight& weight) {
  const auto* bytes = static_cast<const uint8_t*>(weight.data);
  for (int64_t i = 0; i < weight.n * weight.k; ++i) {
    if ((bytes[i] & 0x7f) == 0x7f)
      return unsupported(fmt::format("FP8 weight at row {}, column {} is not a number", i / weight.k, i % weight.k));
  }
  const int64_t blocks = (weight.k + 31) / 32;
  for (int64_t i = 0; i < (weight.n + 31) / 32 * blocks; ++i) {
    if (weight.scale[i] > kHighestScale)
      return unsupported(fmt::format("FP8 scale 2^{} at row {}, column {}: at most 2^{} is possible on a GPU",
                                     weight.scale[i] - 127, i / blocks * 32, i % blocks * 32, kHighestScale - 127));
  }
  return {};
}

}  // namespace

Status to_strip_order(const LinearWeight& weight, std::span<uint8_t> data, std::span<uint8_t> scales) {
  DI_CHECK(weight.format == LinearWeight::Format::kFp8, "an FP8 weight");
  DI_CHECK(static_cast<int64_t>(data.size()) == strip_order_bytes(weight.n, weight.k), "room for the strips");
  DI_CHECK(static_cast<int64_t>(scales.size()) == strip_order_scales(weight.n, weight.k), "room for the scales");
  DI_RETURN_IF_ERROR(check_numbers(weight));
  const auto* bytes = static_cast<const uint8_t*>(weight.data);
  const auto at = [&](int64_t row, int64_t column) -> uint8_t {
    return row < weight.n && column < weight.k ? bytes[row * weight.k + column] : 0;
  };
  const int64_t pieces = pieces_of(weight.k);
  uint8_t* out = data.data();
  for (int64_t strip = 0; strip < strips_of(weight.n); ++strip)
    for (int64_t piece = 0; piece < pieces; ++piece)
      for (int64_t lane = 0; lane < 32; ++lane)
        for (int64_t step = 0; step < kPieceColumns / 16; ++step) {
          const int64_t row = strip * kStripRows + lane / 4;
          const int64_t column = piece * kPieceColumns + step * 16 + 2 * (lane % 4);
          for (int64_t next = 0; next < 2; ++next) {
            const uint16_t half = interleaved(at(row, column + next), at(row, column + 8 + next));
            *out++ = static_cast<uint8_t>(half);
            *out++ = static_cast<uint8_t>(half >> 8);
          }
        }
  const int64_t blocks = (weight.k + 31) / 32;
  for (int64_t tile = 0; tile < (weight.n + 31) / 32; ++tile) {
    uint8_t* row = scales.data() + tile * pieces * 2;
    std::copy_n(weight.scale + tile * blocks, blocks, row);
    std::fill(row + blocks, row + pieces * 2, uint8_t{0});
  }
  return {};
}

}  // namespace deepinfer::cuda
