// The scratch of one thread's attention.  Called by the attention drivers of this folder.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/steps/kernels.h"
#include "backends/cpu/steps/steps.h"

namespace deepinfer::cpu {

inline constexpr int64_t kMostGroupRows = 8;    // neighbouring rows that share decoded records
inline constexpr int64_t kMostGroupHeads = 16;  // more heads of one row share them well enough

inline int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Places of a row's scratch, in bytes; of a group of rows, their heads one after the other.
struct Steps::AttentionLayout {
  // heads: of a group of rows; wide: rows have few enough heads for wide keys.
  AttentionLayout(int64_t heads, int64_t d, int64_t most_keys, bool wide, bool tiles) {
    const int64_t keys = round_up(most_keys, kKeyRange);
    const auto place = [this](int64_t size) {
      const int64_t at = bytes;
      bytes += round_up(size, 64);
      return at;
    };
    this->keys = place(wide ? 0 : keys * d * 2);
    wide_keys = place(wide ? keys * wide_key_stride(d) * 4 : 0);
    queries = place(heads * d * 4);
    key_tiles = place(tiles ? keys * d * 2 : 0);
    scores = place(keys * heads * 4);
    own_scores = place(keys * std::min(heads, kMostGroupHeads) * 4);
    weight_tiles = place(tiles ? keys * heads * 2 : 0);
    denominator = place(heads * 4);
    sinks = place(heads * 4);
  }
  int64_t bytes = 0;
  int64_t keys, wide_keys, queries, key_tiles, scores, own_scores, weight_tiles, denominator, sinks;
};

}  // namespace deepinfer::cpu
