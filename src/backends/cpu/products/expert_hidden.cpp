// The element-wise parts of matrix products: rounding of outputs and the hidden layer of an expert.
#include "backends/cpu/products/row_products.h"
#include "backends/cpu/steps/fp8_group.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

// silu(min(g, limit)) * clamp(u, +-limit) * weight
DI_INLINE F gated(F g, F u, F limit, F weight) {
  g = minimum(g, limit);
  u = maximum(minimum(u, limit), splat(0) - limit);
  return g / (splat(1) + exponential(splat(0) - g)) * u * weight;
}

}  // namespace

void round_row(const float* x, int64_t count, uint16_t* y) {
  for (int64_t i = 0; i < count; i += kLanes) store_bf16(y + i, load(x + i, count - i), count - i);
}

void add_row(const uint16_t* x, int64_t count, float* sum) {
  for (int64_t i = 0; i < count; i += kLanes) {
    store(sum + i, load(sum + i, count - i) + load_bf16(x + i, count - i), count - i);
  }
}

void expert_hidden(const uint16_t* g, const uint16_t* u, int64_t count, float limit, float weight, uint16_t* h) {
  for (int64_t i = 0; i < count; i += 32) {
    const F a = gated(load_bf16(g + i), load_bf16(u + i), splat(limit), splat(weight));
    const F b = gated(load_bf16(g + i + kLanes), load_bf16(u + i + kLanes), splat(limit), splat(weight));
    round_fp8_group(a, b, h + i);
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
