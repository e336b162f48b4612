// Mixture of experts (specs/v41-model.md 2.9).
#pragma once

#include <cstdint>

#include "ops/linear.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

// s = sqrt(softplus(gate x)), softplus(x) = x above 20, else log1p(exp(x)), all fp32; the top_k experts by
// (s + bias descending, id ascending), a NaN ranks as -infinity;
// weight_k = (s_k / (sum of the selected s, in selection order, + 1e-20)) * scaling.
struct Route {
  MatrixView<const bf16> x;            // [rows, d], not quantised
  LinearWeight gate;                   // bf16 [experts, d]
  const float* bias = nullptr;         // [experts]
  const float* bias_image = nullptr;   // [experts], for rows with image[i] != 0
  const uint8_t* image = nullptr;      // [rows] or null
  int top_k = 0;
  float scaling = 1;
  MatrixView<int32_t> expert;          // [rows, top_k], in selection order
  MatrixView<float> weight;            // [rows, top_k]
};

struct ExpertWeights {
  LinearWeight w1;                     // gate [f, d]
  LinearWeight w3;                     // up   [f, d]
  LinearWeight w2;                     // down [d, f]
};

// expert(x) = w2 FP8( (silu(min(g, limit)) * clamp(u, +-limit)) * w ), g = float(bf16(w1 x)), u = float(bf16(w3 x)), the
// product in fp32, FP8 per 32 straight from fp32; each expert's output is rounded to bf16.  silu(g) = g / (1 + exp(-g)).
// y = bf16( 0 + experts in ascending id + shared (no weight, last) ), the sum in fp32.
struct MixtureOfExperts {
  MatrixView<const bf16> x;            // [rows, d], already rounded by QuantizeActivation
  MatrixView<const int32_t> expert;    // [rows, top_k], different in a row; top_k may be 0
  MatrixView<const float> weight;      // [rows, top_k]
  const ExpertWeights* experts = nullptr;
  int expert_count = 0;
  ExpertWeights shared;                // empty: none
  float limit = 10;
  MatrixView<bf16> y;                  // [rows, d]
};

}  // namespace deepinfer
