// Routing: the gate's logits are a matrix product whose tasks go on to the scores; the choice of experts is per row.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/products/products.h"
#include "backends/cpu/steps/row_tasks.h"
#include "base/check.h"
#include "ops/reference/activation.h"

namespace deepinfer::cpu {
namespace {

void scores_of_logits(float* s, int64_t count) {
  for (int64_t e = 0; e < count; ++e) s[e] = std::sqrt(reference::softplus(s[e]));
}

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
  multiply(op.x, op.gate, 1, {}, scores, scores_of_logits);
  for_each_row(pool_, rows, 4 * experts, [&](int64_t m, int) {
    const float* score = scores.row(m);
    int32_t* chosen = op.expert.row(m);
    const float* bias = op.image != nullptr && op.image[m] != 0 ? op.bias_image : op.bias;
    float best[kMaxTopK];
    int64_t count = 0;
    for (int64_t e = 0; e < experts; ++e) {
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
