// Rotary embedding of the last 2*pairs channels of each head (specs/v41-model.md section 2.3): adjacent pairs, fp32,
// y = (a cos - b sin, a sin + b cos) with both products rounded, one cast to bf16.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

struct RopeScaling {  // YaRN; factor 0: none
  double factor = 0;
  double beta_fast = 0;
  double beta_slow = 0;
  double original_max_position_embeddings = 0;
};

// Angular frequency of each channel pair, bit for bit as in specs/v41-model.md 2.3 (fp32 throughout).  rope_dim / 2 values.
std::vector<float> rope_frequencies(int rope_dim, double theta, const RopeScaling& scaling);

// cos and sin of fp32(position) * frequency, correctly reduced, good to an ulp up to position 2^20 and beyond.
struct RopeTable {
  const float* frequencies = nullptr;  // [pairs]
  int pairs = 0;
};

struct Rope {
  MatrixView<bf16> x;                  // [rows, heads * head_dim], rotated in place
  const int64_t* position = nullptr;   // [rows]
  int heads = 1;
  int head_dim = 0;
  RopeTable table;
  bool inverse = false;                // the conjugate rotation, for attention output
};

}  // namespace deepinfer
