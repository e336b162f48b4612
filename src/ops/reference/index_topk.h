// The pieces of the lightning indexer that tests and backends look at one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/sequence.h"
#include "tensor/dtype.h"

namespace deepinfer::reference {

// The query of one row: records of all heads and the heads' weights, as IndexTopk takes them.
struct IndexQuery {
  const uint8_t* records = nullptr;  // [heads * index_record_bytes(head_dim)]
  const bf16* weights = nullptr;     // [heads]
  int heads = 0;
  int head_dim = 128;
};

// Scores of the keys 0 .. count - 1, visible or not.
std::vector<float> index_scores(const IndexQuery& query, const BlockList& keys, int64_t count);

// The `count` best of the entries above -infinity by (score descending, index ascending), in ascending order.
std::vector<int32_t> best_indices(const std::vector<float>& scores, int64_t count);

// Kept blocks of the candidate pool, ascending; scores [visible rows].
std::vector<int32_t> candidate_blocks(const std::vector<float>& scores, int block_rows, int64_t most_blocks);

}  // namespace deepinfer::reference
