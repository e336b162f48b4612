// Golden checks of the router and the experts.
#include <gtest/gtest.h>

#include "ops/golden_ops.h"
#include "ops/op_calls.h"

namespace deepinfer {
namespace {

const ModelWeights& weights() {
  return ModelWeights::demonstration();
}

void expect_routing(const GoldenEntry& golden, const Routing& routing) {
  const std::vector<int64_t> expert(routing.expert.values().begin(), routing.expert.values().end());
  golden.expect_equal<int64_t>("expert", expert);
  golden.expect("weight", routing.weight.values());
}

void gate(Ops& ops, const GoldenEntry& golden) {
  expect_routing(golden, route(ops, golden.in_rows<bf16>("x", kHidden),
                               {.x = {},
                                .gate = weights().plain("layers.5.ffn.gate.weight"),
                                .bias = weights().floats("layers.5.ffn.gate.bias"),
                                .bias_image = weights().floats("layers.5.ffn.gate.bias_vl"),
                                .image = golden.in<uint8_t>("image").data(),
                                .top_k = 4,
                                .scaling = 1.5f,
                                .expert = {},
                                .weight = {}}));
}

void gate_ties(Ops& ops, const GoldenEntry& golden) {
  std::vector<bf16> matrix;
  for (const float value : golden.in<float>("gate")) matrix.push_back(to_bf16(value));
  expect_routing(golden, route(ops, golden.in_rows<bf16>("x", 32),
                               {.x = {},
                                .gate = {LinearWeight::Format::kBf16, 32, 32, matrix.data(), nullptr},
                                .bias = golden.in<float>("bias").data(),
                                .top_k = 4,
                                .scaling = 1.5f,
                                .expert = {},
                                .weight = {}}));
}

void expert(Ops& ops, const GoldenEntry& golden) {
  const MatrixView<const bf16> x = golden.in_rows<bf16>("x", kHidden);
  std::vector<ExpertWeights> experts(16);
  experts[3] = weights().expert("layers.5.ffn.experts.3");
  const Matrix<int32_t> chosen(x.rows, 1, 3);
  Matrix<bf16> y(x.rows, kHidden);
  ops.mixture_of_experts({.x = quantize(ops, x).view(),
                          .expert = chosen.view(),
                          .weight = golden.in_rows<float>("weight", 1),
                          .experts = experts.data(),
                          .expert_count = 16,
                          .shared = {},
                          .limit = 10,
                          .y = y.view()});
  golden.expect("y", y.values());
}

void shared_expert(Ops& ops, const GoldenEntry& golden) {
  const MatrixView<const bf16> x = golden.in_rows<bf16>("x", kHidden);
  Matrix<bf16> y(x.rows, kHidden);
  ops.mixture_of_experts({.x = quantize(ops, x).view(),
                          .expert = {nullptr, x.rows, 0},
                          .weight = {nullptr, x.rows, 0},
                          .experts = nullptr,
                          .expert_count = 0,
                          .shared = weights().expert("layers.5.ffn.shared_experts"),
                          .limit = 10,
                          .y = y.view()});
  golden.expect("y", y.values());
}

void moe(Ops& ops, const GoldenEntry& golden) {
  golden.expect("y", feed_forward(ops, "layers.5.ffn", golden.in_rows<bf16>("x", kHidden), 4).values());
}

constexpr GoldenCheck kChecks[] = {
    {"gate", gate}, {"gate_ties", gate_ties}, {"expert", expert}, {"shared_expert", shared_expert}, {"moe", moe}};

}  // namespace

std::span<const GoldenCheck> golden_expert_checks() {
  return kChecks;
}

}  // namespace deepinfer
