// Attention over window and compressed rows, ops/sparse_attention.h, in three kernels over `count` rows of the list
// from `first` on.  Operands in device memory; op.sequences is not looked at, the list beside it is.
//
// Slots of a row are its visible rows in the order of the contract: window rows by position, then compressed rows.
// A score is one chain of mma.sync over the channels (kernels/products/products.h, one part).  The denominator: lane l
// of a warp adds the slots l, l + 32, ...; then the lanes are added crosswise.  A sum of values is one chain of
// mma.sync over the slots, 16 at a time in ascending order.  All of it follows from the number of visible rows alone.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/sequence_list.h"
#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/sparse_attention.h"

namespace deepinfer::cuda {

struct AttentionStep {
  SparseAttention op;
  SequenceList<AttentionSequence> list;
  int64_t first = 0, count = 0;   // rows of the list
  int64_t slots = 0;              // of a row, at most; a multiple of 16
  float* scores = nullptr;        // [count, heads, slots]
  bf16* weights = nullptr;        // [count, heads, slots]: the numerators, zeros up to a multiple of 16
  float* denominators = nullptr;  // [count, heads]
};

Status any_attention_scores(const AttentionStep& step, Stream stream);
Status any_attention_weights(const AttentionStep& step, Stream stream);
Status any_attention_values(const AttentionStep& step, Stream stream);

// All of it in one kernel, for the released model's dimensions.  A score is one chain of wgmma over the channels in
// ascending order; the denominator: the slots 16 at a time in a fixed tree, the sums of 16 added in ascending order; a
// sum of values as above.  So a row's bits follow from its visible rows alone, however it is spread.
constexpr int kSm90AttentionHeads = 64, kSm90AttentionHeadDim = 512;
constexpr int kSm90AttentionSlots = 704;
// Multiprocessors a row: 8, 4 or 2.
enum class AttentionSpread : uint8_t { kWide, kMiddle, kNarrow };
// What is fastest for so many rows.
constexpr AttentionSpread attention_spread(int64_t rows) {
  return rows <= 8 ? AttentionSpread::kWide : rows <= 16 ? AttentionSpread::kMiddle : AttentionSpread::kNarrow;
}

// slots: of a row, at most kSm90AttentionSlots.
Status sm90_attention(const SparseAttention& op, const SequenceList<AttentionSequence>& list, int64_t slots,
                      AttentionSpread spread, Stream stream);

}  // namespace deepinfer::cuda
