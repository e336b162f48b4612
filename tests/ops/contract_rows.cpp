// Contracts of the steps that look at one row only, and of steps without rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/contract_suite.h"
#include "ops/matrix.h"
#include "ops/random_data.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr float kEps = 1e-20f;
constexpr bf16 kMinusZero{0x8000};

}  // namespace

TEST_P(OpsContract, EngramRowsOutsideTheTableAreZeroAndDeadRowsAreUntouched) {
  RandomData random(33);
  const OwnedWeight stored = random.weight(LinearWeight::Format::kFp8, 4, 32);
  const std::vector<uint8_t> scales(4, 127);
  const std::vector<int64_t> row = {0, 3, 4, -1, std::numeric_limits<int64_t>::max(), 1};
  for (const bool reachable : {false, true}) {
    Matrix<bf16> e(3, 64, to_bf16(7));
    ops_->engram_gather({.table = {stored.data.data(), scales.data(), 4, 32, reachable},
                         .row = row.data(),
                         .lookups = 2,
                         .e = e.view()});
    for (size_t i = 0; i < row.size(); ++i) {
      for (int64_t c = 0; c < 32; ++c) {
        const bf16 got = e.row(static_cast<int64_t>(i) / 2)[static_cast<int64_t>(i) % 2 * 32 + c];
        const bool inside = row[i] >= 0 && row[i] < 4;
        EXPECT_EQ(to_float(got), inside ? e4m3_to_float(stored.data[row[i] * 32 + c]) : 0.0f);
      }
    }
  }

  Matrix<bf16> streams(1, 4 * 32, kMinusZero);
  const Matrix<bf16> kv(1, 5 * 32, to_bf16(1));
  const Matrix<bf16> ones(4, 32, to_bf16(1));
  const uint8_t dead = 1;
  ops_->engram_mix({.kv = kv.view(),
                    .query_weight = ones.row(0),
                    .key_weight = ones.row(0),
                    .eps = kEps,
                    .dead = &dead,
                    .streams = streams.view()});
  EXPECT_EQ(streams.row(0)[9], kMinusZero);
}

TEST_P(OpsContract, EngramGateHasAFloorOnEitherSideOfZero) {
  // The dot product is positive or negative, but tiny: the gate is sigmoid(+-sqrt(1e-6)).  The stream cancels one half.
  Matrix<bf16> streams(2, 4 * 32, to_bf16(-512));
  Matrix<bf16> kv(2, 5 * 32, to_bf16(1));
  std::fill_n(kv.row(0), 4 * 32, to_bf16(-1));
  for (int64_t m = 0; m < 2; ++m) std::fill_n(kv.row(m) + 4 * 32, 32, to_bf16(1024));
  const Matrix<bf16> small(4, 32, to_bf16(0x1p-30f));
  ops_->engram_mix({.kv = kv.view(),
                    .query_weight = small.row(0),
                    .key_weight = small.row(0),
                    .eps = kEps,
                    .dead = nullptr,
                    .streams = streams.view()});
  const double gate = 1 / (1 + std::exp(-1e-3));
  for (const int64_t c : {0, 40, 127}) {
    EXPECT_NEAR(to_float(streams.row(0)[c]), 1024 * gate - 512, 2e-3);
    EXPECT_NEAR(to_float(streams.row(1)[c]), 512 - 1024 * gate, 2e-3);
  }
}

TEST_P(OpsContract, ZeroKeepsItsSign) {
  Matrix<bf16> x(1, 64, kMinusZero);
  x.row(0)[40] = to_bf16(1);
  x.row(0)[41] = to_bf16(-1e-9f);
  const Matrix<bf16> ones(1, 64, to_bf16(1));
  Matrix<bf16> y(1, 64);
  ops_->rms_norm({.x = x.view(), .weight = ones.row(0), .eps = kEps, .y = y.view()});
  EXPECT_EQ(y.row(0)[3], kMinusZero);
  ops_->quantize_activation({.x = x.view(), .y = y.view()});
  EXPECT_EQ(y.row(0)[3], kMinusZero);
  EXPECT_EQ(y.row(0)[41], kMinusZero) << "rounded to zero";
}

TEST_P(OpsContract, RotationIsGoodAtLargePositions) {
  RandomData random(34);
  const std::vector<float> frequencies = rope_frequencies(
      64, 160000, {.factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position_embeddings = 65536});
  constexpr int64_t kRows = 400;
  std::vector<int64_t> position;
  Matrix<bf16> x(kRows, 64);
  for (int64_t m = 0; m < kRows; ++m) {
    position.push_back(m < 4 ? (1 << 20) - 1 - m : random.below(1 << 20));
    for (int64_t i = 0; i < 64; i += 2) x.row(m)[i] = to_bf16(1);  // becomes (cos, sin)
  }
  ops_->rope(
      {.x = x.view(), .position = position.data(), .heads = 1, .head_dim = 64, .table = {frequencies.data(), 32}});
  int64_t unequal = 0;
  for (int64_t m = 0; m < kRows; ++m) {
    for (int i = 0; i < 32; ++i) {
      const double angle = static_cast<float>(position[m]) * frequencies[i];
      const bf16 want[2] = {to_bf16(static_cast<float>(std::cos(angle))), to_bf16(static_cast<float>(std::sin(angle)))};
      for (int part = 0; part < 2; ++part) {
        const bf16 got = x.row(m)[2 * i + part];
        if (got == want[part]) continue;
        ++unequal;  // an ulp of fp32 may decide a rounding to bf16
        EXPECT_LE(std::abs(got.bits - want[part].bits), 1) << "position " << position[m] << ", pair " << i;
      }
    }
  }
  EXPECT_LE(unequal, 5) << "of " << kRows * 64;
}

TEST_P(OpsContract, NoRowsIsAValidStep) {
  RandomData random(35);
  const OwnedWeight weight = random.weight(LinearWeight::Format::kFp8, 32, 64);
  const Matrix<bf16> norm(1, 64, to_bf16(1));
  const Matrix<float> floats(24, 256, 0.0f);
  const MatrixView<bf16> none(nullptr, 0, 64);
  const MatrixView<bf16> streams(nullptr, 0, 256);
  const MatrixView<float> four(nullptr, 0, 4);
  const MatrixView<float> sixteen(nullptr, 0, 16);
  ops_->embed_tokens({.table = norm.view(), .ids = nullptr, .copies = 4, .streams = streams, .pre = four});
  ops_->rms_norm({.x = none, .weight = norm.row(0), .eps = kEps, .y = none});
  ops_->quantize_activation({.x = none, .y = none});
  ops_->matmul({.x = none, .weight = weight.view(), .y = {nullptr, 0, 32}, .y32 = {}});
  ops_->grouped_matmul({.x = {nullptr, 0, 64}, .weight = weight.view(), .groups = 1, .y = {nullptr, 0, 32}});
  ops_->hyper_connection_mix({.streams = streams,
                              .weights = {.fn = floats.row(0), .base = floats.row(0), .scale = floats.row(0)},
                              .pre = four,
                              .post = four,
                              .comb = sixteen});
  ops_->hyper_connection_collapse({.streams = streams, .pre = four, .norm = norm.row(0), .eps = kEps, .x = none});
  ops_->hyper_connection_expand({.y = none, .post = four, .comb = sixteen, .streams = streams});
  ops_->hyper_connection_mean({.streams = streams, .x = none});
  const std::vector<ExpertWeights> experts(4);
  ops_->mixture_of_experts({.x = none,
                            .expert = {nullptr, 0, 2},
                            .weight = {nullptr, 0, 2},
                            .experts = experts.data(),
                            .expert_count = 4,
                            .shared = {},
                            .limit = 10,
                            .y = none});
  ops_->compress_pairs({.value = {nullptr, 0, 64},
                        .gate = {nullptr, 0, 64},
                        .sequences = nullptr,
                        .sequence_count = 0,
                        .norm = norm.row(0),
                        .eps = kEps,
                        .latent = none});
  ops_->sample({.logits = {nullptr, 0, 100}, .rows = {}, .result = {}, .top_logprobs = {}});
}

}  // namespace deepinfer
