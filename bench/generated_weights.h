// Bytes for weights that nobody trained: valid codes of each format, of a size that keeps activations near one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace deepinfer::bench {

// Fills a tensor's bytes; `name` says whether it is a norm (ones), a scale (a small power of two) or a bias (zeros).
// A pure function of name, dtype and size.
void generate_weight(std::string_view name, DType dtype, std::byte* data, uint64_t bytes);

}  // namespace deepinfer::bench
