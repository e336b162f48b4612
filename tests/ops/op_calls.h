// Operations as calls that return their result, and the compositions of the model that several tests need.
#pragma once

#include <string>
#include <vector>

#include "ops/matrix.h"
#include "ops/model_weights.h"
#include "ops/ops.h"

namespace deepinfer {

// Sizes of the demonstration model that the tests of its steps need.
inline constexpr int kHidden = 256;
inline constexpr int kHeads = 4;
inline constexpr int kHeadDim = 512;
inline constexpr int kIndexHeads = 8;
inline constexpr int kIndexDim = 128;
inline constexpr int kIndexTopk = 128;
inline constexpr int kWindow = 128;
inline constexpr float kEps = 1e-20f;

// The two tables of section 2.3: ratio 0, and every other layer.
RopeTable plain_rope();
RopeTable compressed_rope();

std::vector<int64_t> positions_from(int64_t first, int64_t count);

Matrix<bf16> quantize(Ops& ops, MatrixView<const bf16> x);
Matrix<bf16> multiply(Ops& ops, MatrixView<const bf16> x, const LinearWeight& weight);  // input as it is
Matrix<float> multiply32(Ops& ops, MatrixView<const bf16> x, const LinearWeight& weight);
Matrix<bf16> quantized_linear(Ops& ops, MatrixView<const bf16> x, const LinearWeight& weight);
Matrix<bf16> norm(Ops& ops, MatrixView<const bf16> x, const bf16* weight);
Matrix<bf16> collapse(Ops& ops, MatrixView<const bf16> streams, MatrixView<const float> pre, const bf16* norm);

struct Mixes {
  Matrix<float> pre;
  Matrix<float> post;
  Matrix<float> comb;
};
Mixes mix(Ops& ops, MatrixView<const bf16> streams, const HyperConnectionWeights& weights);

// Attention projections of a layer or draft stage; prefix "layers.2.attn".
struct Projection {
  Matrix<bf16> qr;
  Matrix<bf16> q;           // rotated
  Matrix<uint8_t> records;  // window records
};
Projection project(Ops& ops, const std::string& prefix, MatrixView<const bf16> x, const std::vector<int64_t>& position,
                   RopeTable table);
// Inverse rotation and grouped output projection.  o is changed.
Matrix<bf16> project_output(Ops& ops, const std::string& prefix, Matrix<bf16>& o, const std::vector<int64_t>& position,
                            RopeTable table);

// A whole mixture; prefix "layers.5.ffn".
struct Routing {
  Matrix<int32_t> expert;
  Matrix<float> weight;
};
Routing route(Ops& ops, MatrixView<const bf16> x, const Route& parameters);
Matrix<bf16> feed_forward(Ops& ops, const std::string& prefix, MatrixView<const bf16> x, int top_k);

}  // namespace deepinfer
