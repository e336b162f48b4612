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

// Writes the tokens inside `within` to scratch.ids, ascending; gives their number.  z holds no NaN.
int64_t list_tokens(const float* z, int64_t vocabulary, LogitCut within, LogitOrderScratch scratch);

// The longest prefix in which the weight strictly before each token is <= limit, among the first `count` tokens of
// scratch.ids (ascending, at least one; they are overwritten), which all lie inside `within`.  weights[v] of each
// token, or null: 1 each.  Tokens of weight 0 may be left out of the list where the weights exceed the limit.
LogitCut cut_at(const float* z, int64_t count, LogitCut within, const uint64_t* weights, uint64_t limit,
                LogitOrderScratch scratch);

inline bool inside(LogitCut cut, float z, int64_t id) {
  return z > cut.logit || (z == cut.logit && id <= cut.last_id);
}

}  // namespace deepinfer::cpu
