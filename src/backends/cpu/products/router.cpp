// Routing: the gate's logits are a matrix product; scores and the choice of experts are per row.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/products/products.h"
#include "base/check.h"
#include "ops/reference/activation.h"

namespace deepinfer::cpu {
namespace {

// Inserts an expert into the list of the best so far (largest first; equal scores: lower id first).
void insert(float* best, int32_t* id, int64_t& count, int64_t top_k, float score, int32_t expert) {
  if (count == top_k && !(score > best[count - 1])) return;
  int64_t place = count < top_k ? count++ : count - 1;
  for (; place > 0 && score > best[place - 1]; --place) {
    best[place] = best[place - 1];
    id[place] = id[place - 1];
  }
  best[place] = score;
  id[place] = expert;
}

}  // namespace

void MatrixProducts::route(const Route& op) {
  constexpr int64_t kMaxTopK = 64;
  const int64_t experts = op.gate.n, rows = op.x.rows, top_k = op.top_k;
  DI_CHECK(op.expert.columns == top_k && op.weight.columns == top_k && top_k <= experts && top_k <= kMaxTopK,
           "expert and weight are [rows, top_k]; top_k is at most 64 and the number of experts");
  DI_CHECK(static_cast<uint64_t>(rows * experts) * sizeof(float) <= scores_.size(),
           "routing is beyond the limits of prepare()");
  const MatrixView<float> scores(scores_.as<float>(), rows, experts);
  matmul({.x = op.x, .weight = op.gate, .y = {}, .y32 = scores});
  pool_.parallel_for(rows, [&](int64_t m, int) {
    float* score = scores.row(m);
    int32_t* chosen = op.expert.row(m);
    const float* bias = op.image != nullptr && op.image[m] != 0 ? op.bias_image : op.bias;
    float best[kMaxTopK];
    int64_t count = 0;
    for (int64_t e = 0; e < experts; ++e) {
      score[e] = std::sqrt(reference::softplus(score[e]));
      const float biased = score[e] + bias[e];
      insert(best, chosen, count, top_k, std::isnan(biased) ? -std::numeric_limits<float>::infinity() : biased,
             static_cast<int32_t>(e));
    }
    float sum = 0;
    for (int64_t k = 0; k < top_k; ++k) sum += score[chosen[k]];
    sum += 1e-20f;
    for (int64_t k = 0; k < top_k; ++k) op.weight.row(m)[k] = score[chosen[k]] / sum * op.scaling;
  });
}

}  // namespace deepinfer::cpu
