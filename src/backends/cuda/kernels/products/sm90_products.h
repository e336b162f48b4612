// The products of products.h on Hopper, dense weights in FP8 or BF16.
//
// Order of a sum: that of products.h, but for the places inside a step: there the FP8 kernels have the columns
// 4 s + 0, 2, 1, 3 of a lane's 16 where products.h has 0, 1, 2, 3.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/products/products.h"
#include "backends/cuda/launch/stream.h"
#include "base/status.h"

namespace deepinfer::cuda {

// The bits are the same whichever takes a row.  The kernels ask for the first weights while the kernels before them on
// the stream run, where those allow it.
constexpr int64_t kSm90FewRows = 32;
constexpr int64_t kSm90PartPieces = 16;  // with 32 scales, one a lane
bool sm90_few_takes(const Product& product);  // at most kSm90FewRows rows, whose parts fit into shared memory
Status sm90_product_few(const Product& product, Stream stream);
// Where the kernel for many rows has x, rearranged: room for 128 rows at least; more than fit go in parts.  sums: of the
// parts of K, where few tiles are spread over all multiprocessors; products that do not fit there are not spread.
struct ProductScratch {
  std::byte* image = nullptr;
  int64_t bytes = 0;
  float* sums = nullptr;
  int64_t sum_bytes = 0;
};
constexpr int64_t kProductSumBytes = int64_t{24} << 20;  // beyond, memory takes longer than what is gained
// For steps of so many rows of x, at most so wide.
inline int64_t product_scratch_bytes(int64_t rows, int64_t columns) {
  constexpr int64_t kGood = int64_t{64} << 20;
  const int64_t least = 128 * columns * 2, all = std::max<int64_t>(128, (rows + 127) / 128 * 128) * columns * 2;
  return std::max<int64_t>(256, std::min(all, std::max(least, kGood)));
}
Status sm90_product_many(const Product& product, const ProductScratch& scratch, Stream stream);
// The one that fits; weights in FP4, and k that is no multiple of kProductPiece or has parts of more than
// kSm90PartPieces pieces, by any_product.
Status sm90_product(const Product& product, const ProductScratch& scratch, Stream stream);

}  // namespace deepinfer::cuda
