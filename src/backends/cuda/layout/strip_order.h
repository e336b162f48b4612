// How FP8 weights lie in device memory for the tensor cores: in the order in which the lanes of a warp feed them as an
// operand of m16n8k16, so that they go from memory to registers without any exchange.
//
// A strip is 8 outputs (rows of the weight; past the last one zeros) by all of K.  Strips follow each other; in a
// strip, pieces of 64 columns (past the last one zeros); in a piece, 32 lanes of 16 bytes.  Lane l holds, of row l / 4
// and for each 16 columns c of the piece, a word: columns c + 2 (l % 4) and c + 8 + 2 (l % 4) in the lower 16 bits,
// interleaved so that bf16 numbers are made of them in few steps, and the columns next to these two in the upper.
// Scales: e8m0, [ceil(n / 32)][columns of whole pieces / 32]; past the end 2^-127.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "ops/linear.h"

namespace deepinfer::cuda {

constexpr int64_t kStripRows = 8;
constexpr int64_t kPieceColumns = 64;
constexpr int64_t kPieceBytes = kStripRows * kPieceColumns;

inline int64_t strips_of(int64_t rows) {
  return (rows + kStripRows - 1) / kStripRows;
}
inline int64_t pieces_of(int64_t columns) {
  return (columns + kPieceColumns - 1) / kPieceColumns;
}
inline int64_t strip_order_bytes(int64_t n, int64_t k) {
  return strips_of(n) * pieces_of(k) * kPieceBytes;
}
inline int64_t strip_order_scales(int64_t n, int64_t k) {
  return (n + 31) / 32 * pieces_of(k) * 2;
}

// Rearranges an FP8 weight.  data: strip_order_bytes(n, k); scales: strip_order_scales(n, k).
// kUnsupported where a scale is above 2^7, since its weights could not be converted by one exact bf16 product, and
// where a weight is not a number.
Status to_strip_order(const LinearWeight& weight, std::span<uint8_t> data, std::span<uint8_t> scales);

}  // namespace deepinfer::cuda
