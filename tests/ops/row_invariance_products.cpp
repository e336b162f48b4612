// Row invariance of matrix products, rounding, router and experts.
#include "ops/random_data.h"
#include "ops/row_invariance.h"

namespace deepinfer {
namespace {

using Format = LinearWeight::Format;

void check_matmul(Ops& ops, Format format, int64_t n, int64_t k, int64_t rows, bool fp32) {
  SCOPED_TRACE("n " + std::to_string(n) + ", k " + std::to_string(k) + ", format " +
               std::to_string(static_cast<int>(format)) + (fp32 ? ", fp32" : ""));
  RandomData random(static_cast<uint64_t>(n * k));
  const OwnedWeight weight = random.weight(format, n, k);
  Matrix<bf16> x = random.activations(rows, k);
  if (format != Format::kBf16) ops.quantize_activation({.x = x.view(), .y = x.view()});
  expect_rows_independent(rows, 1, [&](std::span<const int64_t> picked) {
    const Matrix<bf16> in = pick_rows(x, picked);
    RowBytes out;
    if (fp32) {
      Matrix<float> y(in.rows(), n);
      ops.matmul({.x = in.view(), .weight = weight.view(), .y = {}, .y32 = y.view()});
      append_rows(out, y);
    } else {
      Matrix<bf16> y(in.rows(), n);
      ops.matmul({.x = in.view(), .weight = weight.view(), .y = y.view(), .y32 = {}});
      append_rows(out, y);
    }
    return out;
  });
}

}  // namespace

TEST_P(RowInvariance, MatmulFp8) {
  check_matmul(*ops_, Format::kFp8, 64, 5120, 37, false);
  check_matmul(*ops_, Format::kFp8, 160, 1280, 70, false);
  check_matmul(*ops_, Format::kFp8, 33, 2304, 9, false);
  check_matmul(*ops_, Format::kFp8, 96, 32, 130, false);
}

TEST_P(RowInvariance, MatmulFp4) {
  check_matmul(*ops_, Format::kFp4, 48, 5120, 37, false);
  check_matmul(*ops_, Format::kFp4, 72, 2304, 66, false);
  check_matmul(*ops_, Format::kFp4, 7, 96, 20, false);
}

TEST_P(RowInvariance, MatmulBf16) {
  check_matmul(*ops_, Format::kBf16, 32, 5120, 35, false);
  check_matmul(*ops_, Format::kBf16, 130, 512, 40, false);
  check_matmul(*ops_, Format::kBf16, 48, 5120, 33, true);
  check_matmul(*ops_, Format::kBf16, 301, 256, 18, true);
  check_matmul(*ops_, Format::kBf16, 1, 5376, 12, true);
}

TEST_P(RowInvariance, GroupedMatmul) {
  constexpr int kGroups = 4;
  constexpr int64_t kK = 1024;
  constexpr int64_t kN = kGroups * 64;
  RandomData random(2);
  const OwnedWeight weight = random.weight(Format::kFp8, kN, kK);
  Matrix<bf16> x = random.activations(35, kGroups * kK);
  ops_->quantize_activation({.x = x.view(), .y = x.view()});
  expect_rows_independent(x.rows(), 2, [&](std::span<const int64_t> picked) {
    const Matrix<bf16> in = pick_rows(x, picked);
    Matrix<bf16> y(in.rows(), kN);
    ops_->grouped_matmul({.x = in.view(), .weight = weight.view(), .groups = kGroups, .y = y.view()});
    RowBytes out;
    append_rows(out, y);
    return out;
  });
}

TEST_P(RowInvariance, QuantizeActivation) {
  for (const int64_t k : {32, 2304, 5120}) {
    RandomData random(3);
    const Matrix<bf16> x = random.activations(29, k);
    expect_rows_independent(x.rows(), 3, [&](std::span<const int64_t> picked) {
      const Matrix<bf16> in = pick_rows(x, picked);
      Matrix<bf16> y(in.rows(), k);
      ops_->quantize_activation({.x = in.view(), .y = y.view()});
      RowBytes out;
      append_rows(out, y);
      return out;
    });
  }
}

TEST_P(RowInvariance, Route) {
  struct Sizes {
    int64_t experts;
    int64_t k;
    int top_k;
  };
  for (const Sizes& sizes : {Sizes{384, 1280, 6}, Sizes{128, 5120, 3}}) {
    RandomData random(4);
    const OwnedWeight gate = random.weight(Format::kBf16, sizes.experts, sizes.k);
    const Matrix<bf16> x = random.activations(34, sizes.k);
    const Matrix<float> bias = random.floats(2, sizes.experts, 0.1f);
    std::vector<uint8_t> image;
    for (int64_t m = 0; m < x.rows(); ++m) image.push_back(static_cast<uint8_t>(random.below(2)));
    expect_rows_independent(x.rows(), 4, [&](std::span<const int64_t> picked) {
      const Matrix<bf16> in = pick_rows(x, picked);
      const std::vector<uint8_t> is_image = pick(image, picked);
      Matrix<int32_t> expert(in.rows(), sizes.top_k);
      Matrix<float> weight(in.rows(), sizes.top_k);
      ops_->route({.x = in.view(),
                   .gate = gate.view(),
                   .bias = bias.row(0),
                   .bias_image = bias.row(1),
                   .image = is_image.data(),
                   .top_k = sizes.top_k,
                   .scaling = 1.5f,
                   .expert = expert.view(),
                   .weight = weight.view()});
      RowBytes out;
      append_rows(out, expert);
      append_rows(out, weight);
      return out;
    });
  }
}

TEST_P(RowInvariance, MixtureOfExperts) {
  constexpr int64_t kD = 640;
  constexpr int64_t kF = 288;
  constexpr int kExperts = 7;
  constexpr int kTopK = 3;
  RandomData random(5);
  std::vector<OwnedWeight> owned;
  for (int e = 0; e <= kExperts; ++e) {
    const Format format = e < kExperts ? Format::kFp4 : Format::kFp8;
    owned.push_back(random.weight(format, kF, kD));
    owned.push_back(random.weight(format, kF, kD));
    owned.push_back(random.weight(format, kD, kF));
  }
  std::vector<ExpertWeights> experts;
  for (size_t e = 0; e < owned.size(); e += 3) {
    experts.push_back({owned[e].view(), owned[e + 1].view(), owned[e + 2].view()});
  }
  Matrix<bf16> x = random.activations(45, kD);
  ops_->quantize_activation({.x = x.view(), .y = x.view()});
  Matrix<int32_t> expert(x.rows(), kTopK);
  Matrix<float> weight(x.rows(), kTopK);
  for (int64_t m = 0; m < x.rows(); ++m) {
    // The first expert of most rows is the same, so that it meets many rows and others few.
    const auto order = random.shuffled(kExperts - 1);
    for (int k = 0; k < kTopK; ++k) {
      expert.row(m)[k] = k == 0 && m % 5 != 0 ? kExperts - 1 : static_cast<int32_t>(order[k]);
      weight.row(m)[k] = 0.1f + 0.01f * static_cast<float>(random.below(100));
    }
  }
  expect_rows_independent(x.rows(), 5, [&](std::span<const int64_t> picked) {
    const Matrix<bf16> in = pick_rows(x, picked);
    const Matrix<int32_t> chosen = pick_rows(expert, picked);
    const Matrix<float> routing = pick_rows(weight, picked);
    Matrix<bf16> y(in.rows(), kD);
    ops_->mixture_of_experts({.x = in.view(),
                              .expert = chosen.view(),
                              .weight = routing.view(),
                              .experts = experts.data(),
                              .expert_count = kExperts,
                              .shared = experts[kExperts],
                              .limit = 10,
                              .y = y.view()});
    RowBytes out;
    append_rows(out, y);
    return out;
  });
}

}  // namespace deepinfer
