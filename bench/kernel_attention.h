// A decode step's sparse attention at the released dimensions, for `deepinfer bench kernels`.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ops.h"

namespace deepinfer::bench {

class KernelAttention {
 public:
  static constexpr int kHeads = 64, kHeadDim = 512, kWindow = 128, kSelected = 512;
  static constexpr int kKeys = kWindow + kSelected;
  static constexpr int64_t kPosition = 4096;

  KernelAttention();
  void run(Ops& ops);
  double operations() const { return 4.0 * kKeys * kHeads * kHeadDim; }  // scores and weighted sums

 private:
  std::vector<std::byte> window_, compressed_;  // records: of positions, of compressed rows
  std::vector<bf16> q_;
  mutable std::vector<bf16> o_;
  std::vector<int32_t> selected_;
  std::vector<float> sink_;
};

}  // namespace deepinfer::bench
