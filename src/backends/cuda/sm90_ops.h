// Sm90Ops: the operations on Hopper: those that have a kernel for it by that, the others by the any_ kernels, which are
// part of this path.  An operation belongs to one of the two whatever its shape, or both give the same bits.
#pragma once

#include <string_view>

#include "backends/cuda/any_ops.h"
#include "backends/cuda/sm90_mixture.h"

namespace deepinfer::cuda {

class Sm90Ops final : public AnyOps {
 public:
  std::string_view name() const override { return "cuda/sm90"; }
  Status prepare(const OpsLimits& limits) override;

  // Weights of other formats or widths than sm90_experts.h names go by the any_ kernels, whatever the rows.
  void mixture_of_experts(const MixtureOfExperts& op) override;
  // Few rows by a kernel of their own, with the same bits.
  void hyper_connection_expand(const HyperConnectionExpand& op) override;

 protected:
  Status product(const Product& product) override;
  Status attend(const SparseAttention& op, const SequenceList<AttentionSequence>& list, int64_t window_rows) override;
  Status select(const IndexTopk& op, const SequenceList<IndexSequence>& list, int64_t most_visible) override;

 private:
  Sm90Mixture mixture_;
  DeviceBuffer product_image_;  // of x of a product of many rows, or of a part of these
  DeviceBuffer product_sums_;   // of the parts of K of such a product
};

}  // namespace deepinfer::cuda
