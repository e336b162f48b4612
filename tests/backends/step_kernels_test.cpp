// The step kernels by themselves: accuracy of the exponential, and the same bits from every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/steps/kernels.h"
#include "backends/cpu_backends.h"
#include "ops/random_data.h"

namespace deepinfer {
namespace {

using cpu::StepKernels;

std::vector<const StepKernels*> machine_tables() {
  std::vector<const StepKernels*> tables;
  if (machine_has(CpuIsa::kAvx2)) tables.push_back(&cpu::step_kernels_avx2());
  if (machine_has(CpuIsa::kAvx512)) tables.push_back(&cpu::step_kernels_avx512());
  return tables;
}

const uint16_t* raw(const Matrix<bf16>& x) {
  return reinterpret_cast<const uint16_t*>(x.row(0));
}

// In units of the last place of the exact result, which below 2^-126 is 2^-149.
double error_in_ulp(float got, double exact) {
  if (exact > std::numeric_limits<float>::max()) return std::isinf(got) ? 0 : 1e9;
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

TEST(StepKernels, ExponentialIsGoodToOneAndAHalfUlp) {
  for (const StepKernels* kernels : machine_tables()) {
    double worst = 0;
    std::vector<float> x(1024), y(1024);
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const uint32_t end = std::bit_cast<uint32_t>(sign == 0 ? 89.0f : 105.0f);
      uint32_t bits = 0;
      while (bits < end) {
        for (float& value : x) value = std::bit_cast<float>((bits += 1021) | sign);
        kernels->exponential(x.data(), 1024, y.data());
        for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, error_in_ulp(y[i], std::exp(double{x[i]})));
      }
    }
    EXPECT_LT(worst, 1.5);  // 1.25 over all floats that were tried
    x = {0, -0.0f, -200, 200, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};
    y.resize(x.size());
    kernels->exponential(x.data(), static_cast<int64_t>(x.size()), y.data());
    EXPECT_EQ(y, (std::vector<float>{1, 1, 0, std::numeric_limits<float>::infinity(), 0,
                                     std::numeric_limits<float>::infinity()}));
  }
}

// Everything that sums: the other kernels are compared with the reference bit for bit.
// Every code under every scale that a written record has: largest values 2^-22 to 2^127 over 448, and of main records
// all that are numbers.
TEST(StepKernels, WidenedKeysAreTheDecodedOnes) {
  constexpr int64_t kChannels = 512;
  std::vector<uint8_t> record(kChannels + kChannels / 16);
  std::vector<uint16_t> decoded(kChannels);
  std::vector<float> widened(kChannels);
  const auto expect_same = [&](int scale) {
    for (size_t c = 0; c < decoded.size(); ++c) {
      ASSERT_EQ(std::bit_cast<uint32_t>(widened[c]), uint32_t{decoded[c]} << 16) << "scale " << scale << " place " << c;
    }
  };
  for (const StepKernels* kernels : machine_tables()) {
    for (int scale = 95; scale <= 246; ++scale) {
      for (int64_t c = 0; c < kChannels; ++c) record[c] = static_cast<uint8_t>(c);
      std::fill(record.begin() + kChannels, record.end(), static_cast<uint8_t>(scale));
      kernels->decode_fp8(record.data(), kChannels, decoded.data());
      kernels->widen_fp8(record.data(), kChannels, widened.data());
      expect_same(scale);
    }
    for (int scale = 0; scale < 256; ++scale) {
      if ((scale & 127) == 127) continue;
      for (int64_t c = 0; c < kChannels / 2; ++c) record[c] = static_cast<uint8_t>(c);
      std::fill(record.begin() + kChannels / 2, record.end(), static_cast<uint8_t>(scale));
      kernels->decode_main(record.data(), kChannels, decoded.data());
      kernels->widen_main(record.data(), kChannels, widened.data());
      expect_same(scale);
    }
  }
}

struct Sums {
  Matrix<bf16> norm{1, 5120}, engram{1, 4 * 1280}, latent{1, 512}, o{1, 5 * 512}, o_of_wide_keys{1, 5 * 512};
  Matrix<float> mix{1, 24};
};

Sums run(const StepKernels& kernels) {
  RandomData random(50);
  Sums out;
  const auto bits = [](Matrix<bf16>& x) { return reinterpret_cast<uint16_t*>(x.row(0)); };
  const Matrix<bf16> x = random.activations(1, 5120), weight = random.bf16s(1, 5120, 1, 0.1f);
  kernels.rms_norm(raw(x), raw(weight), 5120, 1e-20f, bits(out.norm));

  out.engram = random.activations(1, 4 * 1280);
  const Matrix<bf16> kv = random.activations(1, 5 * 1280);
  kernels.engram_mix(raw(kv), raw(weight), raw(weight), 1e-20f, 0.028f, 1280, bits(out.engram));

  const Matrix<float> half = random.floats(4, 512, 2);
  kernels.pool_pair(half.row(0), half.row(1), half.row(2), half.row(3), 512, bits(out.latent));

  const Matrix<float> fn = random.floats(24, 5120, 0.02f), base = random.floats(1, 24, 1),
                      scale = random.floats(1, 3, 1);
  Matrix<float> partial(1, 5 * cpu::kMixPartial);
  for (int64_t chunk = 0; chunk < 5; ++chunk) {
    kernels.mix_partial(raw(x), 5120, 1, fn.row(0), 5120, chunk * 1024, 1024, 0, cpu::kMixCount,
                        partial.row(0) + chunk * cpu::kMixPartial, 0);
  }
  float* mix = out.mix.row(0);
  float* const parts[] = {mix, mix + 4, mix + 8};
  kernels.mix_finish(partial.row(0), 0, 1, {5, 5120, base.row(0), scale.row(0), 20, 1e-6f, 1e-20f}, &parts[0],
                     &parts[1], &parts[2]);

  const int64_t count = 77, rounded = 96;
  const Matrix<bf16> q = random.activations(1, 5 * 512);
  Matrix<bf16> keys = random.bf16s(rounded, 512, 0, 1);
  const Matrix<float> sink = random.floats(1, 5, 1);
  Matrix<float> queries(5, 512), scores(5, rounded), denominator(1, 5);
  Matrix<float> wide_keys(count, cpu::wide_key_stride(512));
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t c = 0; c < 512; ++c) wide_keys.row(j)[c] = to_float(keys.row(j)[c]);
  }
  cpu::AttentionRow row{.heads = 5,
                        .used_heads = 5,
                        .d = 512,
                        .count = count,
                        .scale = 0.044f,
                        .sink = sink.row(0),
                        .q = raw(q),
                        .o = bits(out.o),
                        .keys = bits(keys),
                        .wide_keys = nullptr,
                        .queries = queries.row(0),
                        .key_tiles = nullptr,
                        .scores = scores.row(0),
                        .weight_tiles = nullptr,
                        .denominator = denominator.row(0)};
  const auto attend = [&] {
    kernels.attention->prepare_queries(row);
    kernels.attention->scores(row, 0, count);
    kernels.attention->softmax(row, 0, 5);
    for (int64_t c = 0; c < 512; c += 64) kernels.attention->values(row, 0, 5, c, 64);
  };
  attend();
  row.keys = nullptr;
  row.wide_keys = wide_keys.row(0);
  row.o = bits(out.o_of_wide_keys);
  attend();
  return out;
}

TEST(StepKernels, InstructionSetsAgreeToTheBit) {
  const auto tables = machine_tables();
  for (size_t i = 1; i < tables.size(); ++i) {
    const Sums a = run(*tables[0]), b = run(*tables[i]);
    const auto same = [](const auto& x, const auto& y) {
      return std::memcmp(x.row(0), y.row(0), static_cast<size_t>(x.columns()) * sizeof(*x.row(0))) == 0;
    };
    EXPECT_TRUE(same(a.norm, b.norm));
    EXPECT_TRUE(same(a.engram, b.engram));
    EXPECT_TRUE(same(a.latent, b.latent));
    EXPECT_TRUE(same(a.mix, b.mix));
    EXPECT_TRUE(same(a.o, b.o));
    EXPECT_TRUE(same(a.o, a.o_of_wide_keys));
    EXPECT_TRUE(same(b.o, b.o_of_wide_keys));
  }
}

}  // namespace
}  // namespace deepinfer
