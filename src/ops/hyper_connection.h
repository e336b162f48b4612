// Single-pass manifold-constrained hyper-connections (mHC), specs/v41-model.md 2.2.
// X is the residual stream, bf16 [rows, copies, d], copy-major; copies is 4.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

inline constexpr int kHyperCopies = 4;

struct HyperConnectionWeights {        // of one site (attention or ffn); all fp32
  const float* fn = nullptr;           // [2c + c*c, c*d]
  const float* base = nullptr;         // [2c + c*c]: c pre, c post, c*c comb (row-major i, j)
  const float* scale = nullptr;        // [3]: pre, post, comb
  int sinkhorn_iterations = 20;
  float hc_eps = 1e-6f;
  float norm_eps = 1e-20f;
};

// The coefficients of one site, from the stream at that site (formulas in 2.2).  fp32; the Sinkhorn steps divide, they do
// not multiply by a reciprocal; sums of four are ((a + b) + c) + d.  May be under way beside the operations after it, up
// to the next one on streams: in between nothing writes these streams or touches the coefficients.
struct HyperConnectionMix {
  MatrixView<const bf16> streams;      // X [rows, c*d]
  HyperConnectionWeights weights;
  MatrixView<float> pre;               // [rows, c]
  MatrixView<float> post;              // [rows, c]
  MatrixView<float> comb;              // [rows, c*c]: comb[i*c + j] carries copy i into copy j
};

// x = RMSNorm(bf16(sum_j pre_j X_j), norm): the input of a sublayer.  norm null: the collapse only.
struct HyperConnectionCollapse {
  MatrixView<const bf16> streams;      // [rows, c*d]
  MatrixView<const float> pre;         // [rows, c]
  const bf16* norm = nullptr;          // [d] or null
  float eps = 0;
  MatrixView<bf16> x;                  // [rows, d]
  MatrixView<bf16> quantized = {};     // [rows, d]: x as QuantizeActivation rounds it; no data: not wanted
};

// X'_j = bf16(post_j y + (sum_i comb[i][j] X_i)), in place; i ascending, products rounded.  Then, where the
// next sublayer follows at once, its input from X'.
struct HyperConnectionExpand {
  MatrixView<const bf16> y;            // [rows, d]: the sublayer's output
  MatrixView<const float> post;        // [rows, c]
  MatrixView<const float> comb;        // [rows, c*c]
  MatrixView<bf16> streams;            // [rows, c*d]
  HyperConnectionCollapse next = {};   // of the same streams; x without data: none
};

// tap = bf16(mean over the copies, fp32), the DSpark feature of a layer's input.
struct HyperConnectionMean {
  MatrixView<const bf16> streams;      // [rows, c*d]
  MatrixView<bf16> x;                  // [rows, d]
};

}  // namespace deepinfer
