// ScratchArena: hands out matrices of one block of memory, in order.  Without a block it only measures, so that the
// code that lays a plan out is the code that sizes it.  Used by activations.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tensor/matrix.h"

namespace deepinfer::deepseek_v41 {

class ScratchArena {
 public:
  explicit ScratchArena(std::byte* block) : block_(block) {}

  template <typename T>
  MatrixView<T> matrix(int64_t rows, int64_t columns) {
    const uint64_t bytes = static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) * sizeof(T);
    T* data = block_ != nullptr ? reinterpret_cast<T*>(block_ + used_) : nullptr;
    used_ += (bytes + 63) / 64 * 64;
    peak_ = std::max(peak_, used_);
    return {data, rows, columns};
  }

  // Everything handed out after mark() may be handed out again after rewind(): parts of a plan that never live
  // together.
  uint64_t mark() const { return used_; }
  void rewind(uint64_t mark) { used_ = mark; }
  uint64_t bytes() const { return peak_; }

 private:
  std::byte* block_;
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace deepinfer::deepseek_v41
