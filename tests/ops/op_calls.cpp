#include "ops/op_calls.h"

#include <numeric>

#include "tensor/formats.h"

namespace deepinfer {

RopeTable plain_rope() {
  static const std::vector<float> frequencies = rope_frequencies(64, 10000, {});
  return {frequencies.data(), 32};
}

RopeTable compressed_rope() {
  static const std::vector<float> frequencies = rope_frequencies(
      64, 160000, {.factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position_embeddings = 65536});
  return {frequencies.data(), 32};
}

std::vector<int64_t> positions_from(int64_t first, int64_t count) {
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

Matrix<bf16> quantize(Ops& ops, MatrixView<const bf16> x) {
  Matrix<bf16> y(x.rows, x.columns);
  ops.quantize_activation({.x = x, .y = y.view()});
  return y;
}

Matrix<bf16> multiply(Ops& ops, MatrixView<const bf16> x, const LinearWeight& weight) {
  Matrix<bf16> y(x.rows, weight.n);
  ops.matmul({.x = x, .weight = weight, .y = y.view(), .y32 = {}});
  return y;
}

Matrix<float> multiply32(Ops& ops, MatrixView<const bf16> x, const LinearWeight& weight) {
  Matrix<float> y(x.rows, weight.n);
  ops.matmul({.x = x, .weight = weight, .y = {}, .y32 = y.view()});
  return y;
}

Matrix<bf16> quantized_linear(Ops& ops, MatrixView<const bf16> x, const LinearWeight& weight) {
  return multiply(ops, quantize(ops, x).view(), weight);
}

Matrix<bf16> norm(Ops& ops, MatrixView<const bf16> x, const bf16* weight) {
  Matrix<bf16> y(x.rows, x.columns);
  ops.rms_norm({.x = x, .weight = weight, .eps = kEps, .y = y.view()});
  return y;
}

Matrix<bf16> collapse(Ops& ops, MatrixView<const bf16> streams, MatrixView<const float> pre, const bf16* norm) {
  Matrix<bf16> x(streams.rows, streams.columns / kHyperCopies);
  ops.hyper_connection_collapse({.streams = streams, .pre = pre, .norm = norm, .eps = kEps, .x = x.view()});
  return x;
}

Mixes mix(Ops& ops, MatrixView<const bf16> streams, const HyperConnectionWeights& weights) {
  Mixes mixes{Matrix<float>(streams.rows, 4), Matrix<float>(streams.rows, 4), Matrix<float>(streams.rows, 16)};
  ops.hyper_connection_mix({.streams = streams,
                            .weights = weights,
                            .pre = mixes.pre.view(),
                            .post = mixes.post.view(),
                            .comb = mixes.comb.view()});
  return mixes;
}

Projection project(Ops& ops, const std::string& prefix, MatrixView<const bf16> x, const std::vector<int64_t>& position,
                   RopeTable table) {
  const ModelWeights& weights = ModelWeights::demonstration();
  Projection made;
  made.qr = norm(ops, quantized_linear(ops, x, weights.linear(prefix + ".wq_a")).view(),
                 weights.vector(prefix + ".q_norm.weight"));
  made.q = quantized_linear(ops, made.qr.view(), weights.linear(prefix + ".wq_b"));
  ops.rope({.x = made.q.view(), .position = position.data(), .heads = kHeads, .head_dim = kHeadDim, .table = table});
  const Matrix<bf16> kv = quantized_linear(ops, x, weights.linear(prefix + ".wkv"));
  made.records = Matrix<uint8_t>(x.rows, fp8_record_bytes(kHeadDim));
  ops.make_window_records({.kv = kv.view(),
                           .norm = weights.vector(prefix + ".kv_norm.weight"),
                           .eps = kEps,
                           .position = position.data(),
                           .table = table,
                           .records = made.records.view()});
  return made;
}

Matrix<bf16> project_output(Ops& ops, const std::string& prefix, Matrix<bf16>& o, const std::vector<int64_t>& position,
                            RopeTable table) {
  const ModelWeights& weights = ModelWeights::demonstration();
  ops.rope({.x = o.view(),
            .position = position.data(),
            .heads = kHeads,
            .head_dim = kHeadDim,
            .table = table,
            .inverse = true});
  ops.quantize_activation({.x = o.view(), .y = o.view()});
  const LinearWeight wo_a = weights.linear(prefix + ".wo_a");
  Matrix<bf16> a(o.rows(), wo_a.n);
  ops.grouped_matmul({.x = o.view(), .weight = wo_a, .groups = 2, .y = a.view()});
  return quantized_linear(ops, a.view(), weights.linear(prefix + ".wo_b"));
}

Routing route(Ops& ops, MatrixView<const bf16> x, const Route& parameters) {
  Routing made{Matrix<int32_t>(x.rows, parameters.top_k), Matrix<float>(x.rows, parameters.top_k)};
  Route op = parameters;
  op.x = x;
  op.expert = made.expert.view();
  op.weight = made.weight.view();
  ops.route(op);
  return made;
}

Matrix<bf16> feed_forward(Ops& ops, const std::string& prefix, MatrixView<const bf16> x, int top_k) {
  const ModelWeights& weights = ModelWeights::demonstration();
  const Routing routing = route(ops, x,
                                {.x = {},
                                 .gate = weights.plain(prefix + ".gate.weight"),
                                 .bias = weights.floats(prefix + ".gate.bias"),
                                 .bias_image = weights.floats(prefix + ".gate.bias_vl"),
                                 .top_k = top_k,
                                 .scaling = 1.5f,
                                 .expert = {},
                                 .weight = {}});
  std::vector<ExpertWeights> experts;
  const int64_t count = weights.plain(prefix + ".gate.weight").n;
  for (int64_t e = 0; e < count; ++e) experts.push_back(weights.expert(prefix + ".experts." + std::to_string(e)));
  Matrix<bf16> y(x.rows, x.columns);
  ops.mixture_of_experts({.x = quantize(ops, x).view(),
                          .expert = routing.expert.view(),
                          .weight = routing.weight.view(),
                          .experts = experts.data(),
                          .expert_count = static_cast<int>(count),
                          .shared = weights.expert(prefix + ".shared_experts"),
                          .limit = 10,
                          .y = y.view()});
  return y;
}

}  // namespace deepinfer
