// The position-keyed sampler, to the bit (specs/dspark.md 5.2b): integer operations and single fp32 operations only.
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

namespace {

constexpr float kLn2 = 0x1.62e43p-1f;
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23
constexpr float kNever = -__builtin_inff();

// x = 2^k (1 + r), r in [-1/4, 1/2), exact; x is positive and normal.
DI_INLINE void log_parts(F x, F& k, F& r) {
  const I bits = as_int(x);
  const I exponent = shift_right_signed<23>(bits - splat_int(0x3F400000));
  k = to_float(exponent);
  r = as_float(bits - shift_left<23>(exponent)) - splat(1.0f);
}

DI_INLINE F ln(F k, F r) {
  constexpr float kLog[] = {-0x1p-1f,       0x1.5555a4p-2f,  -0x1.000046p-2f, 0x1.99697ap-3f, -0x1.54ee28p-3f,
                            0x1.2883bep-3f, -0x1.0d9942p-3f, 0x1.acd728p-4f,  -0x1.71a206p-5f};
  F y = splat(kLog[8]);
  for (int i = 7; i >= 0; --i) y = fma(y, r, splat(kLog[i]));
  return fma(k, splat(kLn2), fma(r * r, y, r));
}

DI_INLINE F negate_sign(F x) {
  return as_float(bit_xor(as_int(x), splat_int(INT32_MIN)));
}

// -ln(-ln u), u = (word + 1/2) / 2^32.
DI_INLINE F gumbel(I word) {
  const M high = greater(splat_int(0), word);
  const I m = select(high, bit_xor(word, splat_int(-1)), word);
  const F x = fma(to_float(m), splat(0x1p-32f), splat(0x1p-33f));  // u, or 1 - u
  F k, r;
  log_parts(x, k, r);
  const M above_quarter = less(splat(0.25f), x);
  k = select(high, select(above_quarter, splat(-1.0f), splat(0)), k);
  r = select(high, select(above_quarter, fma(x, splat(-2.0f), splat(1.0f)), negate_sign(x)), r);
  const F e = negate_sign(ln(k, r));
  log_parts(e, k, r);
  return negate_sign(ln(k, r));
}

// e^d for d <= 0; 0 below -80.
DI_INLINE F exp_weight(F d) {
  constexpr float kExp[] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558aep-5f, 0x1.12397ep-7f, 0x1.6a4f52p-10f};
  const F n = fma(d, splat(kLog2E), splat(kRoundToInteger)) - splat(kRoundToInteger);
  const F g = fma(n, splat(-kLn2), d);
  F y = splat(kExp[4]);
  for (int i = 3; i >= 0; --i) y = fma(y, g, splat(kExp[i]));
  const F e = fma(g * g, y, g) + splat(1.0f);
  const F scaled = as_float(as_int(e) + shift_left<23>(to_int(n)));
  return select(less(d, splat(-80.0f)), splat(0), scaled);
}

// Random words of kDrawBlock tokens from id 4 * block on, in order of ids.
DI_INLINE void philox(uint32_t block, const DrawRequest& request, I (&words)[4]) {
  alignas(64) static constexpr int32_t kLane[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  I c0 = splat_int(static_cast<int32_t>(block)) + load_int(kLane);
  I c1 = splat_int(static_cast<int32_t>(request.position)), c2 = splat_int(static_cast<int32_t>(request.stream));
  I c3 = splat_int(0);
  auto k0 = static_cast<uint32_t>(request.seed), k1 = static_cast<uint32_t>(request.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    I p_high, p_low, q_high, q_low;
    multiply_wide(c0, 0xD2511F53u, p_high, p_low);
    multiply_wide(c2, 0xCD9E8D57u, q_high, q_low);
    c0 = bit_xor(bit_xor(q_high, c1), splat_int(static_cast<int32_t>(k0)));
    c1 = q_low;
    c2 = bit_xor(bit_xor(p_high, c3), splat_int(static_cast<int32_t>(k1)));
    c3 = p_low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  interleave({c0, c1, c2, c3}, words);
}

// Logits with -infinity behind the end.
DI_INLINE F load_logits(const float* z, int64_t left) {
  if (left >= kLanes) [[likely]]
    return load(z);
  float part[kLanes];
  for (int i = 0; i < kLanes; ++i) part[i] = i < left ? z[i] : kNever;
  return load(part);
}

}  // namespace

LogitStats logit_stats(const float* z, int64_t n) {
  F top = splat(kNever);
  uint32_t fine = 0xFFFF;
  for (int64_t i = 0; i < n; i += kLanes) {
    const F v = load_logits(z + i, n - i);
    fine &= bits(less(v, splat(__builtin_inff())));
    top = maximum(v, top);
  }
  return {horizontal_maximum(top), fine != 0xFFFF};
}

void mask_logits(const uint32_t* allowed, float* z, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const M keep = mask_of_bits(allowed[i / 32] >> (i % 32) & 0xFFFF);
    store(z + i, select(keep, load(z + i, n - i), splat(kNever)), n - i);
  }
}

int64_t find_first(const float* z, int64_t n, float value) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const uint32_t hits = bits(equal(load_logits(z + i, n - i), splat(value)));
    if (hits != 0) return i + __builtin_ctz(hits);
  }
  return n;
}

void exp_weights(const float* z, int64_t n, float top, float r, float* e) {
  for (int64_t i = 0; i < n; i += kLanes) {
    store(e + i, exp_weight((load_logits(z + i, n - i) - splat(top)) * splat(r)), n - i);
  }
}

DrawResult draw(const DrawRequest& request, int64_t begin, int64_t end) {
  alignas(64) static constexpr int32_t kLane[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const F cut = splat(request.cut.logit), r = splat(request.inverse_temperature);
  const I past_cut = splat_int(request.cut.last_id + 1);
  F best = splat(kNever);
  I best_id = splat_int(-1);
  int64_t kept = 0;
  for (int64_t block = begin; block < end; block += kDrawBlock) {
    F z[4];
    M keep[4];
    uint32_t any = 0;
    for (int v = 0; v < 4; ++v) {
      const int64_t from = block + v * kLanes;
      z[v] = load_logits(request.logits + from, end - from);
      const I id = splat_int(static_cast<int32_t>(from)) + load_int(kLane);
      keep[v] = either(less(cut, z[v]), both(equal(cut, z[v]), greater(past_cut, id)));
      if (request.use_min_p) {
        const F e = exp_weight((z[v] - splat(request.top)) * r);
        keep[v] = both(keep[v], less_equal(splat(request.min_p), e));
      }
      kept += __builtin_popcount(bits(keep[v]));
      any |= bits(keep[v]);
    }
    if (any == 0) continue;
    I words[4];
    philox(static_cast<uint32_t>(block / 4), request, words);
    for (int v = 0; v < 4; ++v) {
      const I id = splat_int(static_cast<int32_t>(block + v * kLanes)) + load_int(kLane);
      const F key = fma(z[v], r, gumbel(words[v]));
      const M better = both(keep[v], either(less(best, key), greater(splat_int(0), best_id)));
      best = select(better, key, best);
      best_id = select(better, id, best_id);
    }
  }
  float keys[kLanes];
  int32_t ids[kLanes];
  store(keys, best);
  store_int(ids, best_id);
  DrawResult result{kNever, -1, kept};
  for (int lane = 0; lane < kLanes; ++lane) {
    if (ids[lane] < 0) continue;
    if (result.token < 0 || keys[lane] > result.key || (keys[lane] == result.key && ids[lane] < result.token)) {
      result.key = keys[lane];
      result.token = ids[lane];
    }
  }
  return result;
}

float natural_log(float x) {
  F k, r;
  log_parts(splat(x), k, r);
  float out[kLanes];
  store(out, ln(k, r));
  return out[0];
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
