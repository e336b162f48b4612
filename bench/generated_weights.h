// Bytes for weights that nobody trained: valid codes of each format, of a size that keeps activations near one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/memory.h"

namespace deepinfer::bench {

// Fills a tensor's bytes; `name` says whether it is a norm (ones), a scale (a small power of two) or a bias (zeros).
// A pure function of name, dtype and size.
void generate_weight(std::string_view name, DType dtype, std::byte* data, uint64_t bytes);

// The same kinds of weights in a memory that the host cannot write: large tensors are copies of parts of few, made
// once.
class DeviceWeights {
 public:
  explicit DeviceWeights(Memory& memory) : memory_(memory) {}
  // kResourceExhausted where there is no room for what is copied.  Finished after memory.finish().
  Status generate(std::string_view name, DType dtype, std::byte* data, uint64_t bytes);

 private:
  Memory& memory_;
  std::map<DType, Buffer> patterns_;
  uint64_t from_ = 0;
};

}  // namespace deepinfer::bench
