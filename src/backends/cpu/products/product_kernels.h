// The inner loops of matrix products, one table per path.  The drivers (products.cpp, experts.cpp, router.cpp) split an
// operation into blocks of weight rows and activation rows and call these; nothing here knows threads.
//
// Exactness: output (m, n) is a sum over K in one order that the path and the weight's format fix.  A block's size, its
// place and the rows beside it change which loop runs, never a sum.
//
// bf16 values travel as their bits.  No kernel allocates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deepinfer::cpu {

enum class WeightFormat : uint8_t { kFp8, kFp4, kBf16 };  // as LinearWeight::Format

// Activations are packed in tiles of this many rows; the last tile of a product may hold fewer.
inline constexpr int kTileRows = 16;
// Most activation rows and weight rows of one multiply call.
inline constexpr int64_t kMaxBlockRows = 256;
inline constexpr int64_t kMaxBlockOutputs = 256;

// Consecutive rows of a weight; for FP8 they begin at a multiple of 32 or lie between two of them.
struct WeightBlock {
  WeightFormat format;
  const uint8_t* data;   // of the first row
  const uint8_t* scale;  // of the first row; FP8: of its tile row, ceil(k/32) bytes each.  Null for bf16
  int64_t k;             // a multiple of 32
  int64_t outputs;       // rows, at most kMaxBlockOutputs
};

// Where the results of a product go: result (m, i) to place m * stride + i of one of the two, to the other's null.
struct ProductOutput {
  float* fp32;
  uint16_t* bf16;  // rounded
  int64_t stride;
};

struct ProductKernels {
  // Columns of a packed row: k, or k rounded up to what the path reads at once (the rest is zero).
  int64_t (*packed_columns)(WeightFormat format, int64_t k);
  // Packs count <= kTileRows rows; tile t of a product starts at element t * kTileRows * packed columns.
  void (*pack)(WeightFormat format, const uint16_t* const* rows, int count, int64_t k, uint16_t* tile);

  // Result (m, i) = row m of the packed activations times row i of the block, for rows <= kMaxBlockRows.
  // scratch: scratch_bytes(k), aligned to 64.  Reads ahead of the block of weights, by prefetch only, and up to 64
  // bytes behind the packed activations.
  void (*multiply)(const WeightBlock& weight, const uint16_t* packed, int64_t rows, const ProductOutput& out,
                   std::byte* scratch);
  size_t (*scratch_bytes)(int64_t k);

  void (*round_row)(const float* x, int64_t count, uint16_t* y);  // y = bf16(x)
  void (*add_row)(const uint16_t* x, int64_t count, float* sum);  // sum += x, of bf16
  // h = FP8(weight * silu(min(g, limit)) * clamp(u, +-limit)), all of bf16; count a multiple of 32.
  void (*expert_hidden)(const uint16_t* g, const uint16_t* u, int64_t count, float limit, float weight, uint16_t* h);
};

const ProductKernels& product_kernels_avx2();
const ProductKernels& product_kernels_avx512();
const ProductKernels& product_kernels_amx();

}  // namespace deepinfer::cpu
