// Norms, rotation and the element-wise parts of hyper-connections and Engram.
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

namespace {

// Sixteen lanes of partial sums in four chains; chain c takes the vectors c, c + 4, ....
struct Sum {
  F chain[4] = {splat(0), splat(0), splat(0), splat(0)};
  float total() const { return horizontal_sum((chain[0] + chain[1]) + (chain[2] + chain[3])); }
};

float sum_of_squares(const uint16_t* x, int64_t d) {
  Sum sum;
  int64_t i = 0;
  for (; i + 4 * kLanes <= d; i += 4 * kLanes) {
    for (int c = 0; c < 4; ++c) {
      const F v = load_bf16(x + i + c * kLanes);
      sum.chain[c] = fma(v, v, sum.chain[c]);
    }
  }
  for (int c = 0; i < d; i += kLanes, ++c) {
    const F v = load_bf16(x + i, d - i);
    sum.chain[c] = fma(v, v, sum.chain[c]);
  }
  return sum.total();
}

float inverse_root(float sum, int64_t d, float eps) {
  return 1.0f / __builtin_sqrtf(sum / static_cast<float>(d) + eps);
}

}  // namespace

void exponentials(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += kLanes) store(y + i, exponential(load(x + i, n - i)), n - i);
}

void rms_norm(const uint16_t* x, const uint16_t* weight, int64_t d, float eps, uint16_t* y) {
  const F r = splat(inverse_root(sum_of_squares(x, d), d, eps));
  for (int64_t i = 0; i < d; i += kLanes) {
    store_bf16(y + i, load_bf16(weight + i, d - i) * (load_bf16(x + i, d - i) * r), d - i);
  }
}

void rope(uint16_t* x, int64_t heads, int64_t head_dim, int64_t channels, const float* cos, const float* sin) {
  uint16_t* tail = x + head_dim - channels;
  for (int64_t h = 0; h < heads; ++h, tail += head_dim) {
    for (int64_t i = 0; i < channels; i += kLanes) {
      const F v = load_bf16(tail + i, channels - i);
      const F turned = v * load(cos + i, channels - i) + swap_pairs(v) * load(sin + i, channels - i);
      store_bf16(tail + i, turned, channels - i);
    }
  }
}

void collapse(const uint16_t* streams, const float* pre, int64_t d, int64_t count, uint16_t* x) {
  const F p0 = splat(pre[0]), p1 = splat(pre[1]), p2 = splat(pre[2]), p3 = splat(pre[3]);
  for (int64_t i = 0; i < count; i += kLanes) {
    const uint16_t* s = streams + i;
    const int64_t left = count - i;
    const F sum = ((p0 * load_bf16(s, left) + p1 * load_bf16(s + d, left)) + p2 * load_bf16(s + 2 * d, left)) +
                  p3 * load_bf16(s + 3 * d, left);
    store_bf16(x + i, sum, left);
  }
}

void expand(const uint16_t* y, const float* post, const float* comb, int64_t d, int64_t count, uint16_t* streams) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t left = count - i;
    const F out = load_bf16(y + i, left);
    F old[4];
    for (int k = 0; k < 4; ++k) old[k] = load_bf16(streams + k * d + i, left);
    for (int j = 0; j < 4; ++j) {
      const F mixed = ((splat(comb[j]) * old[0] + splat(comb[4 + j]) * old[1]) + splat(comb[8 + j]) * old[2]) +
                      splat(comb[12 + j]) * old[3];
      store_bf16(streams + j * d + i, splat(post[j]) * out + mixed, left);
    }
  }
}

void mean(const uint16_t* streams, int64_t d, uint16_t* x) {
  for (int64_t i = 0; i < d; i += kLanes) {
    const uint16_t* s = streams + i;
    const F sum =
        ((load_bf16(s, d - i) + load_bf16(s + d, d - i)) + load_bf16(s + 2 * d, d - i)) + load_bf16(s + 3 * d, d - i);
    store_bf16(x + i, sum * splat(0.25f), d - i);
  }
}

void engram_mix(const uint16_t* kv, const uint16_t* query_weight, const uint16_t* key_weight, float eps, float factor,
                int64_t d, uint16_t* streams) {
  const uint16_t* value = kv + 4 * d;
  for (int64_t j = 0; j < 4; ++j) {
    uint16_t* x = streams + j * d;
    const uint16_t* key = kv + j * d;
    F x_squares = splat(0), key_squares = splat(0), dots = splat(0);
    for (int64_t i = 0; i < d; i += kLanes) {
      const F xi = load_bf16(x + i, d - i), ki = load_bf16(key + i, d - i);
      const F weight = load_bf16(query_weight + j * d + i, d - i) * load_bf16(key_weight + j * d + i, d - i);
      x_squares = fma(xi, xi, x_squares);
      key_squares = fma(ki, ki, key_squares);
      dots = dots + (xi * weight) * ki;
    }
    const float r = inverse_root(horizontal_sum(x_squares), d, eps) * inverse_root(horizontal_sum(key_squares), d, eps);
    const float a = horizontal_sum(dots) * r * factor;
    const float magnitude = __builtin_fabsf(a) < 1e-6f ? 1e-6f : __builtin_fabsf(a);
    const F gate = sigmoid(splat(__builtin_copysignf(__builtin_sqrtf(magnitude), a)));
    for (int64_t i = 0; i < d; i += kLanes) {
      store_bf16(x + i, load_bf16(x + i, d - i) + gate * load_bf16(value + i, d - i), d - i);
    }
  }
}

void pool_pair(const float* even_gate, const float* even_value, const float* odd_gate, const float* odd_value,
               int64_t width, uint16_t* latent) {
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t left = width - i;
    const F g0 = load(even_gate + i, left), g1 = load(odd_gate + i, left);
    const F top = maximum(g0, g1);
    const F e0 = exponential(g0 - top), e1 = exponential(g1 - top);
    const F sum = e0 + e1;
    store_bf16(latent + i, (e0 / sum) * load(even_value + i, left) + (e1 / sum) * load(odd_value + i, left), left);
  }
}

void add_rows(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += kLanes) store(y + i, load(y + i, n - i) + load(x + i, n - i), n - i);
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
