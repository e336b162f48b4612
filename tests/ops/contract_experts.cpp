// Contracts of the router and the experts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/contract_suite.h"
#include "ops/matrix.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

using Indices = std::vector<int32_t>;

}  // namespace

TEST_P(OpsContract, RoutingKeepsTheLowerExpertOfEqualsAndOutlivesNan) {
  const std::vector<bf16> gate(12 * 32, bf16{0});
  const std::vector<float> bias = {0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0};
  Matrix<bf16> x(3, 32, to_bf16(1));
  x.row(1)[5] = to_bf16(std::numeric_limits<float>::quiet_NaN());
  Matrix<int32_t> expert(3, 6, -1);
  Matrix<float> weight(3, 6);
  ops_->route({.x = x.view(),
               .gate = {LinearWeight::Format::kBf16, 12, 32, gate.data(), nullptr},
               .bias = bias.data(),
               .top_k = 6,
               .scaling = 1.5f,
               .expert = expert.view(),
               .weight = weight.view()});
  for (const int64_t m : {0, 2}) {
    const auto got = expert.row_values(m);
    EXPECT_EQ(Indices(got.begin(), got.end()), (Indices{1, 3, 4, 7, 0, 2}));
    for (const float w : weight.row_values(m)) EXPECT_NEAR(w, 0.25f, 1e-7);
  }
  std::vector<int32_t> broken(expert.row(1), expert.row(1) + 6);
  std::sort(broken.begin(), broken.end());
  EXPECT_TRUE(std::adjacent_find(broken.begin(), broken.end()) == broken.end() && broken.front() >= 0 &&
              broken.back() < 12)
      << "a broken row still names experts that exist, each once";
}

TEST_P(OpsContract, ExpertsClampGateAndUp) {
  // x is 1 in channel 0; column 0 of w1 and w3 holds g and u of each hidden value, w2 is the identity.
  constexpr int64_t kD = 32;
  std::vector<uint8_t> w1(kD * kD / 2, 0);
  std::vector<uint8_t> w3(w1);
  std::vector<uint8_t> w2(w1);
  const std::vector<uint8_t> by_four(kD, 129);  // scale 4: values up to 24
  const std::vector<uint8_t> by_one(kD, 127);
  std::vector<float> hidden(kD);
  constexpr float kWeight = 0.75f;
  for (int64_t i = 0; i < kD; ++i) {
    const auto g_code = static_cast<uint8_t>(i % 16);
    const auto u_code = static_cast<uint8_t>((i * 7 + 5) % 16);
    w1[i * kD / 2] = g_code;
    w3[i * kD / 2] = u_code;
    w2[(i * kD + i) / 2] = i % 2 == 0 ? 0x02 : 0x20;
    const double g = std::min(4 * double{e2m1_to_float(g_code)}, 10.0);
    const double u = std::clamp(4 * double{e2m1_to_float(u_code)}, -10.0, 10.0);
    hidden[i] = static_cast<float>(g / (1 + std::exp(-g)) * u * kWeight);
  }
  using Format = LinearWeight::Format;
  const ExpertWeights expert{{Format::kFp4, kD, kD, w1.data(), by_four.data()},
                             {Format::kFp4, kD, kD, w3.data(), by_four.data()},
                             {Format::kFp4, kD, kD, w2.data(), by_one.data()}};
  Matrix<bf16> x(1, kD);
  x.row(0)[0] = to_bf16(1);
  const int32_t chosen = 0;
  const float weight = kWeight;
  Matrix<bf16> y(1, kD);
  ops_->mixture_of_experts({.x = x.view(),
                            .expert = {&chosen, 1, 1},
                            .weight = {&weight, 1, 1},
                            .experts = &expert,
                            .expert_count = 1,
                            .shared = {},
                            .limit = 10,
                            .y = y.view()});
  std::vector<uint8_t> record(static_cast<size_t>(fp8_record_bytes(kD)));
  Matrix<bf16> want(1, kD);
  encode_fp8_row(hidden.data(), kD, record.data());
  decode_fp8_row(record.data(), kD, want.row(0));
  for (int64_t i = 0; i < kD; ++i) EXPECT_EQ(to_float(y.row(0)[i]), to_float(want.row(0)[i])) << i;
}

}  // namespace deepinfer
