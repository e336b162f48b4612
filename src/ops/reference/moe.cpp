#include "ops/reference/moe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "ops/reference/activation.h"
#include "ops/reference/reference.h"
#include "tensor/formats.h"

namespace deepinfer::reference {
namespace {

// Rows of one expert and their routing weights.
struct ExpertRows {
  std::vector<int64_t> row;
  std::vector<float> weight;
};

// sum[row] += float(bf16(expert(x[row]))) for the given rows.
void add_expert(const ExpertWeights& expert, const MixtureOfExperts& op, const ExpertRows& rows,
                std::vector<float>& sum) {
  const auto count = static_cast<int64_t>(rows.row.size());
  const int64_t d = op.x.columns;
  const int64_t f = expert.w1.n;
  std::vector<bf16> x(static_cast<size_t>(count * d));
  for (int64_t i = 0; i < count; ++i) std::copy_n(op.x.row(rows.row[i]), d, x.data() + i * d);
  std::vector<bf16> g(static_cast<size_t>(count * f));
  std::vector<bf16> u(g.size());
  matmul({.x = {x.data(), count, d}, .weight = expert.w1, .y = {g.data(), count, f}, .y32 = {}});
  matmul({.x = {x.data(), count, d}, .weight = expert.w3, .y = {u.data(), count, f}, .y32 = {}});
  for (int64_t i = 0; i < count; ++i) {
    expert_hidden_row(g.data() + i * f, u.data() + i * f, f, op.limit, rows.weight[i], g.data() + i * f);
  }
  matmul({.x = {g.data(), count, f}, .weight = expert.w2, .y = {x.data(), count, d}, .y32 = {}});
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < d; ++c) sum[rows.row[i] * d + c] += to_float(x[i * d + c]);
  }
}

}  // namespace

void expert_hidden_row(const bf16* g, const bf16* u, int64_t count, float limit, float weight, bf16* out) {
  std::vector<float> h(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    h[i] = silu(std::min(to_float(g[i]), limit)) * std::clamp(to_float(u[i]), -limit, limit) * weight;
  }
  std::vector<uint8_t> record(static_cast<size_t>(fp8_record_bytes(count)));
  encode_fp8_row(h.data(), count, record.data());
  decode_fp8_row(record.data(), count, out);
}

void route(const Route& op) {
  const int64_t experts = op.gate.n;
  DI_CHECK(op.expert.columns == op.top_k && op.weight.columns == op.top_k && op.top_k <= experts,
           "expert and weight are [rows, top_k], top_k is at most the number of experts");
  std::vector<float> scores(static_cast<size_t>(op.x.rows * experts));
  matmul({.x = op.x, .weight = op.gate, .y = {}, .y32 = {scores.data(), op.x.rows, experts}});
  for (float& score : scores) score = std::sqrt(softplus(score));
  std::vector<int32_t> order(static_cast<size_t>(experts));
  std::vector<float> biased(static_cast<size_t>(experts));
  for (int64_t m = 0; m < op.x.rows; ++m) {
    const float* score = scores.data() + m * experts;
    const float* bias = op.image != nullptr && op.image[m] != 0 ? op.bias_image : op.bias;
    for (int64_t e = 0; e < experts; ++e) {
      biased[e] = score[e] + bias[e];
      if (std::isnan(biased[e])) biased[e] = -std::numeric_limits<float>::infinity();
    }
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + op.top_k, order.end(),
                      [&](int32_t a, int32_t b) { return biased[a] != biased[b] ? biased[a] > biased[b] : a < b; });
    float sum = 0;
    for (int k = 0; k < op.top_k; ++k) sum += score[order[k]];
    sum += 1e-20f;
    for (int k = 0; k < op.top_k; ++k) {
      op.expert.row(m)[k] = order[k];
      op.weight.row(m)[k] = score[order[k]] / sum * op.scaling;
    }
  }
}

void mixture_of_experts(const MixtureOfExperts& op) {
  const int64_t d = op.x.columns;
  std::vector<ExpertRows> rows(static_cast<size_t>(op.expert_count));
  for (int64_t m = 0; m < op.x.rows; ++m) {
    for (int64_t k = 0; k < op.expert.columns; ++k) {
      const int32_t e = op.expert.row(m)[k];
      DI_CHECK(e >= 0 && e < op.expert_count, "every chosen expert exists");
      rows[e].row.push_back(m);
      rows[e].weight.push_back(op.weight.row(m)[k]);
    }
  }
  std::vector<float> sum(static_cast<size_t>(op.x.rows * d), 0.0f);
  for (int e = 0; e < op.expert_count; ++e) {
    if (!rows[e].row.empty()) add_expert(op.experts[e], op, rows[e], sum);
  }
  if (!op.shared.w1.empty() && op.x.rows > 0) {
    ExpertRows all;
    all.row.resize(static_cast<size_t>(op.x.rows));
    std::iota(all.row.begin(), all.row.end(), 0);
    all.weight.assign(all.row.size(), 1.0f);
    add_expert(op.shared, op, all, sum);
  }
  for (int64_t m = 0; m < op.x.rows; ++m) {
    for (int64_t c = 0; c < d; ++c) op.y.row(m)[c] = to_bf16(sum[m * d + c]);
  }
}

}  // namespace deepinfer::reference
