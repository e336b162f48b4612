// The image of a product's x for the kernel for many rows (sm90_product_image.cuh says how it lies), in scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/products/products.h"

namespace deepinfer::cuda {

// Bytes; columns: of x, a multiple of kProductPiece.
inline int64_t product_image_bytes(int64_t rows, int64_t columns) {
  return (rows + 7) / 8 * 8 * columns * 2;
}
Status sm90_product_image(const Product& product, std::byte* image, Stream stream);

}  // namespace deepinfer::cuda
