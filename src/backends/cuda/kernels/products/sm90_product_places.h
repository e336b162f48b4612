// ProductPlaces: what the SM90 kernels for few rows and for many know of a product; their arguments begin with it.
#pragma once

#include <bit>
#include <cstdint>

#include "backends/cuda/kernels/products/products.h"

namespace deepinfer::cuda {

struct ProductPlaces {
  const uint16_t* x;
  const uint8_t* weight;
  const uint8_t* scales;
  uint16_t* y;
  float* y32;
  int64_t x_stride, y_stride;
  int rows, n, k;                // n: of a group
  int pieces, parts, part_bits;  // parts: 2^part_bits
};

inline ProductPlaces places_of(const Product& product) {
  ProductPlaces places = {};
  places.x = reinterpret_cast<const uint16_t*>(product.x.data);
  places.weight = static_cast<const uint8_t*>(product.weight.data);
  places.scales = product.weight.scale;
  places.y = reinterpret_cast<uint16_t*>(product.y.data);
  places.y32 = product.y32.data;
  places.x_stride = product.x.stride;
  places.y_stride = product.y32.data != nullptr ? product.y32.stride : product.y.stride;
  places.rows = static_cast<int>(product.x.rows);
  places.n = static_cast<int>(product.weight.n / product.groups);
  places.k = static_cast<int>(product.weight.k);
  places.pieces = static_cast<int>(product_pieces(product.weight.k));
  places.parts = product_parts(product.weight.k);
  places.part_bits = std::countr_zero(static_cast<unsigned>(places.parts));
  return places;
}

}  // namespace deepinfer::cuda
