// How the rows of a weight and of the activations are read, for the kernels that decode weights in registers.
// Kernel sources only: everything is inlined into them.
#pragma once

#include "backends/cpu/products/row_products.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

DI_LANE void prefetch(const uint8_t* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

// body(0), body(1), .., body(kCount - 1) as so many statements: the compiler sees which element of an array of vectors
// each of them means, and keeps all of them in registers.
template <int kIndex>
struct Index {
  static constexpr int value = kIndex;
  constexpr operator int() const { return kIndex; }
};
template <int kCount, int kFirst = 0, typename Body>
DI_LANE void unroll(Body body) {
  if constexpr (kFirst < kCount) {
    body(Index<kFirst>());
    unroll<kCount, kFirst + 1>(body);
  }
}

// How a format is read: kLine columns are 64 bytes, a Step turns kStep columns into vectors, a LastStep what may be
// left of a row.
//
// Every lane's sum is one chain of multiply-adds, vector after vector along K, with scales applied beforehand to the
// activations or to the weights, exactly.  But for kScaledSteps (add_fp4_step): there the products of a step add up on
// their own, without scales, and one more multiply-add brings them with their factors into the sum; weights need no
// scaling one by one.
template <WeightFormat kFormat>
struct Reader;

template <>
struct Reader<WeightFormat::kFp8> {
  static constexpr int64_t kLine = 64, kStep = kFp8Step;
  static constexpr bool kScaledSteps = false, kHasLastStep = kFp8Step > 32;
  using Step = Fp8Step;
  using LastStep = Fp8HalfStep;
};
template <>
struct Reader<WeightFormat::kFp4> {
  static constexpr int64_t kLine = 128, kStep = kFp4Step;
  static constexpr bool kScaledSteps = kFp4ScaledSteps, kHasLastStep = !kFp4ScaledSteps;
#if !defined(__AVX512F__)
  using Step = Fp4Step;
  using LastStep = Fp4HalfStep;
#endif
};
template <>
struct Reader<WeightFormat::kBf16> {
  static constexpr int64_t kLine = 32, kStep = 2 * kWidth;
  static constexpr bool kScaledSteps = false, kHasLastStep = false;  // 32 divides k
  struct Step {
    static constexpr int kVectors = 2;
    const uint8_t* pairs;
    DI_LANE_MEMBER void read(const uint8_t* p, const uint8_t*) { pairs = p; }
    template <int kIndex>
    DI_LANE_MEMBER Vec vector() const {
      return widen_half_of_pairs<kIndex>(load_pairs(pairs));
    }
  };
};

// Rows of a weight one below the other.
struct Rows {
  const uint8_t* codes;
  const uint8_t* scale;  // FP4: of the first row
  int64_t row_bytes, row_scales;
  int64_t columns;
};

// acc[m * R + r] += a step of R rows of the weight times x of M rows, kStride apart.  The fewer of the two stay in
// registers while the others pass one by one.
template <int R, int M, int64_t kStride, typename Step>
DI_LANE void add_steps(const Step* steps, const float* x, Vec* acc) {
  unroll<Step::kVectors>([&](auto i) __attribute__((always_inline)) {
    const auto load_x = [&](int64_t m) __attribute__((always_inline)) {
      return load_vec(x + m * kStride + i * kWidth);
    };
    if constexpr (M < R) {
      Vec at[M];
      unroll<M>([&](auto m) __attribute__((always_inline)) { at[m] = load_x(m); });
      unroll<R>([&](auto r) __attribute__((always_inline)) {
        const Vec w = steps[r].template vector<i>();
        unroll<M>([&](auto m)
                      __attribute__((always_inline)) { acc[m * R + r] = multiply_add(w, at[m], acc[m * R + r]); });
      });
    } else {
      Vec w[R];
      unroll<R>([&](auto r) __attribute__((always_inline)) { w[r] = steps[r].template vector<i>(); });
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        Vec at = load_x(m);
        if (R > 1) __asm__("" : "+v"(at));  // one load for all rows of the weight
        unroll<R>([&](auto r)
                      __attribute__((always_inline)) { acc[m * R + r] = multiply_add(w[r], at, acc[m * R + r]); });
      });
    }
  });
}

#if defined(__AVX512F__)
// The same of an FP4 step.  Vectors are decoded as they are needed, and the sums of the step fill the registers.
// kWhole: four groups, reading a few bytes behind them; else `groups` of them and nothing behind.
template <int R, int M, int64_t kStride, bool kWhole>
DI_LANE void add_fp4_step(const Rows& rows, const uint8_t* codes, const uint8_t* scale, int64_t groups, const float* x,
                          Vec* acc) {
  Vec sum[R * M];
  __m512i words[R];
  if constexpr (!kWhole) {
    unroll<R>([&](auto r)
                  __attribute__((always_inline)) { words[r] = load_fp4_groups(codes + r * rows.row_bytes, groups); });
  }
  unroll<4>([&](auto pair) __attribute__((always_inline)) {
    Vec v[R * 2];
    unroll<R>([&](auto r) __attribute__((always_inline)) {
      if constexpr (kWhole) {
        decode_fp4_pair(codes + r * rows.row_bytes, pair, v + 2 * r);
      } else {
        decode_fp4_pair<pair>(words[r], v + 2 * r);
      }
    });
    unroll<2>([&](auto i) __attribute__((always_inline)) {
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        Vec at = load_vec(x + m * kStride + (2 * pair + i) * kWidth);
        __asm__("" : "+v"(at));  // one load for all rows of the weight
        unroll<R>([&](auto r) __attribute__((always_inline)) {
          Vec& s = sum[m * R + r];
          s = pair + i == 0 ? times(v[2 * r + i], at) : multiply_add(v[2 * r + i], at, s);
        });
      });
    });
  });
  unroll<R>([&](auto r) __attribute__((always_inline)) {
    const uint8_t* of_row = scale + r * rows.row_scales;
    const Vec factors = kWhole ? fp4_factors(of_row) : fp4_factors_last(of_row, groups);
    unroll<M>([&](auto m) __attribute__((always_inline)) {
      acc[m * R + r] = multiply_add(sum[m * R + r], factors, acc[m * R + r]);
    });
  });
}
#endif

// out[i] = the sum of the lanes of v[i].
template <int kCount>
DI_LANE void sum_all_lanes(const Vec* v, float* out) {
  unroll<kCount / 4>([&](auto i) __attribute__((always_inline)) { sum_lanes_of_four(v + 4 * i, out + 4 * i); });
  unroll<kCount, kCount / 4 * 4>([&](auto i) __attribute__((always_inline)) { out[i] = sum_lanes(v[i]); });
}

// x in fp32, in the order of the decoders' vectors.
DI_LANE void widen_row(const uint16_t* packed, int64_t columns, float* x) {
  for (int64_t i = 0; i < columns; i += 2 * kWidth) {
    Vec v[2];
    widen_pairs(packed + i, v);
    store_vec(x + i, v[0]);
    store_vec(x + i + kWidth, v[1]);
  }
}

// The same times the scales of one row of 32x32 weight tiles: a power of two, hence exact.
DI_LANE void widen_row_scaled(const uint16_t* packed, int64_t k, const uint8_t* scale, float* x) {
  for (int64_t i = 0; i < k; i += 32) {
    const Vec factor = broadcast(fp8_factor(scale[i / 32]));
    for (int64_t j = i; j < i + 32; j += 2 * kWidth) {
      Vec v[2];
      widen_pairs(packed + j, v);
      store_vec(x + j, times(v[0], factor));
      store_vec(x + j + kWidth, times(v[1], factor));
    }
  }
}

}  // namespace
}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
