// Cuts in the order (logit descending, id ascending) without sorting the vocabulary: three passes of a radix search
// over the bits of the logits, each over the tokens of one bucket only.
#pragma once

#include <cstdint>

#include "backends/cpu/steps/kernels.h"

namespace deepinfer::cpu {

// Room for one search over a vocabulary, used by one thread at a time.
struct LogitOrderScratch {
  static constexpr int kBuckets = 2048;
  uint64_t* weight;  // [kBuckets]
  int32_t* ids;      // [vocabulary]
};

// No filter: every token with a finite logit.
LogitCut everything();

// The longest prefix in which the weight strictly before each token is <= limit, among the tokens inside `within`.
// weights[v] >= 0 of each token, or null: 1 each.  z holds no NaN; tokens of logit -infinity do not take part.
LogitCut cut_at(const float* z, int64_t vocabulary, LogitCut within, const uint64_t* weights, uint64_t limit,
                LogitOrderScratch scratch);

inline bool inside(LogitCut cut, float z, int64_t id) {
  return z > cut.logit || (z == cut.logit && id <= cut.last_id);
}

}  // namespace deepinfer::cpu
