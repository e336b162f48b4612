#include "ops/hyper_connection.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "ops/reference/activation.h"
#include "ops/reference/norm.h"
#include "ops/reference/ordered_dot.h"
#include "ops/reference/reference.h"
#include "ops/reference/weight_rows.h"

namespace deepinfer::reference {
namespace {

constexpr int kC = kHyperCopies;
constexpr int kMixes = 2 * kC + kC * kC;  // pre, post, comb

void divide_by_row_sums(float (&c)[kC][kC], float eps) {
  for (auto& row : c) {
    const float sum = ((row[0] + row[1]) + row[2]) + row[3] + eps;
    for (float& value : row) value /= sum;
  }
}

void divide_by_column_sums(float (&c)[kC][kC], float eps) {
  for (int j = 0; j < kC; ++j) {
    const float sum = ((c[0][j] + c[1][j]) + c[2][j]) + c[3][j] + eps;
    for (int i = 0; i < kC; ++i) c[i][j] /= sum;
  }
}

// Row softmax, then Sinkhorn: columns, and (rows, columns) for the remaining iterations.
void make_doubly_stochastic(float (&c)[kC][kC], const HyperConnectionWeights& weights) {
  for (auto& row : c) {
    const float top = *std::max_element(row, row + kC);
    for (float& value : row) value = std::exp(value - top);
    const float sum = ((row[0] + row[1]) + row[2]) + row[3];
    for (float& value : row) value = value / sum + weights.hc_eps;
  }
  divide_by_column_sums(c, weights.hc_eps);
  for (int i = 1; i < weights.sinkhorn_iterations; ++i) {
    divide_by_row_sums(c, weights.hc_eps);
    divide_by_column_sums(c, weights.hc_eps);
  }
}

}  // namespace

void hyper_connection_mix(const HyperConnectionMix& op) {
  const HyperConnectionWeights& w = op.weights;
  const int64_t width = op.streams.columns;
  OrderedDot fn;
  fn.resize(kMixes, width);
  for (int i = 0; i < kMixes; ++i) fn.set_row(i, w.fn + i * width);
  for (int64_t m = 0; m < op.streams.rows; ++m) {
    const std::vector<float> x = to_floats(op.streams.row(m), width);
    float mix[kMixes];
    fn.multiply(x.data(), mix);
    const float r = inverse_rms(x.data(), width, w.norm_eps);
    for (float& value : mix) value *= r;

    for (int j = 0; j < kC; ++j) {
      op.pre.row(m)[j] = sigmoid(mix[j] * w.scale[0] + w.base[j]) + w.hc_eps;
      op.post.row(m)[j] = 2 * sigmoid(mix[kC + j] * w.scale[1] + w.base[kC + j]);
    }
    float comb[kC][kC];
    for (int i = 0; i < kC; ++i) {
      for (int j = 0; j < kC; ++j) {
        const int at = 2 * kC + kC * i + j;
        comb[i][j] = mix[at] * w.scale[2] + w.base[at];
      }
    }
    make_doubly_stochastic(comb, w);
    std::copy_n(&comb[0][0], kC * kC, op.comb.row(m));
  }
}

void hyper_connection_collapse(const HyperConnectionCollapse& op) {
  const int64_t d = op.x.columns;
  DI_CHECK(op.streams.columns == kC * d && op.pre.columns == kC, "streams is [rows, 4 d], pre [rows, 4]");
  for (int64_t m = 0; m < op.x.rows; ++m) {
    const bf16* x = op.streams.row(m);
    const float* pre = op.pre.row(m);
    for (int64_t c = 0; c < d; ++c) {
      float sum = pre[0] * to_float(x[c]);
      for (int64_t j = 1; j < kC; ++j) sum += pre[j] * to_float(x[j * d + c]);
      op.x.row(m)[c] = to_bf16(sum);
    }
    if (op.norm != nullptr) rms_norm_row(op.x.row(m), op.norm, d, op.eps, op.x.row(m));
  }
  if (op.quantized.data != nullptr) quantize_activation({op.x, op.quantized});
}

void hyper_connection_expand(const HyperConnectionExpand& op) {
  const int64_t d = op.y.columns;
  DI_CHECK(op.streams.columns == kC * d, "streams is [rows, 4 d]");
  for (int64_t m = 0; m < op.y.rows; ++m) {
    bf16* x = op.streams.row(m);
    const float* post = op.post.row(m);
    const float* comb = op.comb.row(m);
    for (int64_t c = 0; c < d; ++c) {
      const float y = to_float(op.y.row(m)[c]);
      const float old[kC] = {to_float(x[c]), to_float(x[d + c]), to_float(x[2 * d + c]), to_float(x[3 * d + c])};
      for (int64_t j = 0; j < kC; ++j) {
        float sum = comb[j] * old[0];
        for (int64_t i = 1; i < kC; ++i) sum += comb[i * kC + j] * old[i];
        x[j * d + c] = to_bf16(post[j] * y + sum);
      }
    }
  }
  if (op.next.x.data != nullptr) hyper_connection_collapse(op.next);
}

void hyper_connection_mean(const HyperConnectionMean& op) {
  const int64_t d = op.x.columns;
  DI_CHECK(op.streams.columns == kC * d, "streams is [rows, 4 d]");
  for (int64_t m = 0; m < op.x.rows; ++m) {
    const bf16* x = op.streams.row(m);
    for (int64_t c = 0; c < d; ++c) {
      const float sum = ((to_float(x[c]) + to_float(x[d + c])) + to_float(x[2 * d + c])) + to_float(x[3 * d + c]);
      op.x.row(m)[c] = to_bf16(sum / kC);
    }
  }
}

}  // namespace deepinfer::reference
