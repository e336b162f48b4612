#include "backends/cuda/sm90_ops.h"

#include "backends/cuda/any_ops_scratch.h"
#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/products/sm90_products.h"
#include "backends/cuda/kernels/selection/selection.h"
#include "backends/cuda/kernels/streams/streams.h"
#include "base/check.h"

namespace deepinfer::cuda {

Status Sm90Ops::prepare(const OpsLimits& limits) {
  DI_RETURN_IF_ERROR(AnyOps::prepare(limits));
  DI_ASSIGN_OR_RETURN(product_image_, DeviceBuffer::allocate(product_scratch_bytes(limits.rows, limits.max_k)));
  DI_ASSIGN_OR_RETURN(product_sums_, DeviceBuffer::allocate(limits.rows > kSm90FewRows ? kProductSumBytes : 256));
  return mixture_.prepare(limits, stream());
}

Status Sm90Ops::attend(const SparseAttention& op, const SequenceList<AttentionSequence>& list, int64_t window_rows) {
  const int64_t compressed = op.selected.data == nullptr ? 0 : op.selected.columns;
  // By what the model says alone.
  if (op.heads != kSm90AttentionHeads || op.head_dim != kSm90AttentionHeadDim ||
      op.window_size + kMostDraftRows + compressed > kSm90AttentionSlots)
    return AnyOps::attend(op, list, window_rows);
  DI_CHECK(op.o.data == nullptr || (reinterpret_cast<uintptr_t>(op.o.data) % 4 == 0 && op.o.stride % 2 == 0),
           "rows of o lie on 4-byte boundaries");
  return sm90_attention(op, list, window_rows + compressed, attention_spread(list.rows), stream());
}

void Sm90Ops::hyper_connection_expand(const HyperConnectionExpand& op) {
  if (!sm90_hyper_connection_expand_takes(op)) return AnyOps::hyper_connection_expand(op);
  join();
  if (well() && op.y.rows > 0) note(sm90_hyper_connection_expand(op, stream()));
}

void Sm90Ops::mixture_of_experts(const MixtureOfExperts& op) {
  if (!Sm90Mixture::takes(op)) return AnyOps::mixture_of_experts(op);
  if (well() && op.x.rows > 0) note(mixture_.run(op, stream()));
}

Status Sm90Ops::select(const IndexTopk& op, const SequenceList<IndexSequence>& list, int64_t most_visible) {
  if (!sm90_index_takes(op)) return AnyOps::select(op, list, most_visible);
  const auto splits = [](const IndexTopk&, int64_t keys, int64_t rows) { return sm90_index_splits(keys, rows); };
  return select_by({splits, sm90_index_scores, sm90_index_best}, op, list, most_visible);
}

Status Sm90Ops::product(const Product& product) {
  return sm90_product(
      product, {product_image_.data(), product_image_.bytes(), product_sums_.as<float>(), product_sums_.bytes()}, stream());
}

}  // namespace deepinfer::cuda
