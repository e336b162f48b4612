// Router and mixture of experts, ops/moe.h.  All pointers are device memory; sums of products in the order of
// kernels/products/products.h.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/moe.h"

namespace deepinfer::cuda {

// From scores [rows, experts], the product of x and the gate.  op.x and op.gate are not looked at.
Status any_route(const Route& op, MatrixView<const float> scores, Stream stream);

// A choice is a row and one of its top_k places, number row * top_k + place.  choice[e * rows + i], i < count[e], are
// the choices of expert e in ascending order; active[0 .. *active_count) are the experts that have any, ascending.
struct ExpertChoices {
  int32_t* choice = nullptr;  // [experts, rows]
  int32_t* count = nullptr;   // [experts]
  int32_t* active = nullptr;  // [experts]
  int32_t* active_count = nullptr;
};
Status any_list_choices(MatrixView<const int32_t> expert, int expert_count, const ExpertChoices& choices,
                        Stream stream);

// The rows of many experts, or of one (the shared one: weight 1, choice m is row m).
struct ExpertStep {
  MatrixView<const bf16> x;                    // [rows, d]
  int64_t width = 0;                           // f, of all experts
  LinearWeight::Format format_in, format_out;  // of w1 and w3, of w2
  const ExpertWeights* experts = nullptr;      // [experts], or the one
  int expert_count = 0;                        // 1 and no choices: the one
  ExpertChoices choices;
  MatrixView<const float> weight;  // [rows, top_k]
  float limit = 0;
  bf16* hidden = nullptr;  // [choices, width]
  bf16* y = nullptr;       // [choices, d]: each expert's output
};
// hidden = FP8( (silu(min(g, limit)) * clamp(u, +-limit)) * weight ).
Status any_expert_hidden(const ExpertStep& step, Stream stream);
// y = bf16(w2 hidden).
Status any_expert_output(const ExpertStep& step, Stream stream);

// y = bf16( 0 + outputs of a row in ascending expert + shared ); routed [rows * top_k, d], shared [rows, d] or null.
Status any_combine_experts(MatrixView<const int32_t> expert, const bf16* routed, const bf16* shared, MatrixView<bf16> y,
                           Stream stream);

}  // namespace deepinfer::cuda
