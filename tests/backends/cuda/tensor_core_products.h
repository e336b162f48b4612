// Small matrix products by every tensor-core instruction and operand order that a kernel could use, to compare bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace deepinfer::cuda {

constexpr int kProductWeights = 64;  // rows of the weight matrix
constexpr int kProductK = 1024;

// One way to compute out[row, weight] = sum over k of tokens[row, k] * weights[weight, k].
struct ProductWay {
  std::string name;
  // tokens, weights: bf16 bits, row-major; rows: a multiple of 256.  blocks: of the grid.
  void (*launch)(const uint16_t* weights, const uint16_t* tokens, int64_t rows, int blocks, float* out);
};
const std::vector<ProductWay>& product_ways();

// Kinds of token rows; row i is of kind i % kRowKinds.
constexpr int kRowKinds = 6;
const char* row_kind_name(int kind);
void fill_operands(uint16_t* weights, uint16_t* tokens, int64_t rows);

// Outputs whose bits differ, by row kind; counts: kRowKinds zeroed counters on the device.
void count_differences(const float* a, const float* b, int64_t rows, unsigned long long* counts);

}  // namespace deepinfer::cuda
