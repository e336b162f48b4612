// How much scratch memory the any_ kernels need for a largest step.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cuda/kernels/sampling/sampling.h"
#include "backends/cuda/kernels/selection/selection.h"
#include "backends/cuda/kernels/streams/streams.h"
#include "ops/ops.h"

namespace deepinfer::cuda {

constexpr int64_t kSampleRows = 32;              // sampled at once
constexpr int64_t kScratch = int64_t{64} << 20;  // bytes for rows that pass in parts
constexpr int64_t kMostDraftRows = 64;           // of a draft block: all of them are visible to each

// Bytes; each at least 256, so that nothing is allocated with none.
struct AnyScratch {
  int64_t parcel, mix, scores, choices, hidden, outputs, attention, selection, raw_logits, sampled;
};

inline int64_t attention_slots(const OpsLimits& limits) {
  return (limits.window_size + kMostDraftRows + limits.top_k + 15) / 16 * 16;
}
// Of one row: scores, numerators, denominators.
inline int64_t attention_row_bytes(int64_t heads, int64_t slots) {
  return heads * (slots * 6 + 4);
}
inline int64_t selection_row_bytes(int64_t splits, int64_t rows, int64_t blocks) {
  return splits * ((rows + blocks) * 8 + 8);
}

inline AnyScratch scratch_of(const OpsLimits& limits) {
  const int64_t rows = std::max<int64_t>(1, limits.rows), per_row = limits.experts_per_token + 1;
  const int64_t splits = splits_of_keys(limits.max_position, 8);
  const int64_t keys = std::max<int64_t>(limits.top_k, 1), blocks = limits.candidate_blocks;
  AnyScratch scratch{
      // A row of the sampler with everything: mask, draft logits, counts and biases of every token; or the block list
      // of a
      // sequence with blocks of one record.
      .parcel = std::max({int64_t{4} << 20, limits.vocabulary * 28 + 4096, limits.max_position * 8 + 4096, rows * 64,
                          int64_t{limits.experts + 1} * 128}),
      .mix = kMixCounters * 4 + mix_part_floats(rows, 4 * limits.hidden) * 4,
      .scores = rows * limits.experts * 4,
      .choices = (limits.experts * (rows + 2) + 1) * 4,
      .hidden = rows * per_row * limits.expert_width * 2,
      .outputs = rows * per_row * limits.hidden * 2,
      .attention = std::max(kScratch, attention_row_bytes(limits.heads, attention_slots(limits))),
      .selection = std::max(kScratch, selection_row_bytes(splits, keys, blocks)),
      .raw_logits = std::min(rows, kSampleRows) * limits.vocabulary * 4,
      .sampled = kSampleRows * 256 + 8 * limits.vocabulary,  // a choice and its log-probabilities
  };
  for (int64_t* bytes :
       {&scratch.mix, &scratch.scores, &scratch.choices, &scratch.hidden, &scratch.outputs, &scratch.raw_logits})
    *bytes = std::max<int64_t>(*bytes, 256);
  return scratch;
}

}  // namespace deepinfer::cuda
