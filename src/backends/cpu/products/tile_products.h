// The pieces of the amx path; contracts in product_kernels.h.  Kernel sources only.
#pragma once

#include "backends/cpu/products/product_kernels.h"
#include "backends/cpu/products/tile_decode.h"

namespace deepinfer::cpu::amx {

int64_t packed_columns(WeightFormat format, int64_t k);
// B tiles of count rows: [tile along K][pair of columns][row][2].
void pack(WeightFormat format, const uint16_t* const* rows, int count, int64_t k, uint16_t* tile);

// The sums of 32 outputs as they leave the tiles, c[16 outputs x 16 rows] twice, rounded: output i of row j goes to
// y[j * stride + i], for i < outputs and j < rows.  Tile products give no subnormal sums, so the instructions that
// round may treat these as they like.
void store_rounded(const float* c, const float* next, int outputs, int rows, uint16_t* y, int64_t stride);

// c[16 x 16] of fp32 with c[i][j] in out[j * stride + i], for i < outputs and j < rows.
void store_transposed(const float* c, int outputs, int rows, float* out, int64_t stride);

void multiply(const WeightBlock& weight, const uint16_t* packed, int64_t rows, const ProductOutput& out,
              std::byte* scratch);
size_t scratch_bytes(int64_t k);

}  // namespace deepinfer::cpu::amx
