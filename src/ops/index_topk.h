// The lightning indexer: which compressed rows a query attends to (specs/v41-model.md 2.5, 2.6).
#pragma once

#include <cstdint>

#include "ops/rope.h"
#include "ops/sequence.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

// Index query records: FP4(RoPE(q)) per head, section 6.4.
struct MakeIndexQueries {
  MatrixView<const bf16> q;            // [rows, heads * head_dim]: wq_b qr
  int heads = 0;
  int head_dim = 128;
  const int64_t* position = nullptr;   // [rows]
  RopeTable table;
  MatrixView<uint8_t> records;         // [rows, heads * index_record_bytes(head_dim)]
};

struct IndexSequence {
  int64_t first_row = 0;               // of queries
  int64_t rows = 0;
  int64_t position = 0;                // of first_row
  BlockList keys;                      // of the KV source; row j is visible to position p when j < (p + 1) / ratio
};

// score(j) = sum_h relu(q_h . k_j) * w_h, w_h = float(weights[h]) * (head_dim * heads)^-0.5: each product rounded to fp32,
// added for h = 0, 1, ... in order from 0, no fma.  The dot product is fp32: per 32 channels the sum of the e2m1 products
// (exact: a multiple of 1/4 below 2^11) times (scale_q * scale_k), the groups added in ascending order.  So all backends
// give the same scores and the same selection, bit for bit.  A NaN counts as -infinity and is never selected.
// selected: the top_k visible rows by (score descending, row ascending), written in ascending order, -1 fills.
// Candidate pool of a row: block b holds rows [b * candidate_block, (b + 1) * candidate_block), its score is the largest of
// its visible rows; the block of the newest visible row comes first whatever its score; kept are the
// candidate_topk_blocks best by (score descending, block ascending).  A query that sees no row keeps none.
// The scores are never all in memory: cost O(visible * heads) a row, memory O(top_k + candidate blocks).
struct IndexTopk {
  enum class Pool : uint8_t {
    kNone,  // every visible row competes
    kMake,  // every visible row competes, and the candidate pool of the row is written (2.6)
    kUse,   // only rows in blocks of the candidate pool compete
  };
  MatrixView<const uint8_t> queries;   // [rows, heads * record]
  MatrixView<const bf16> weights;      // [rows, heads]: weights_proj x
  int heads = 0;
  int head_dim = 128;
  int ratio = 1;
  const IndexSequence* sequences = nullptr;
  int sequence_count = 0;
  int top_k = 0;
  MatrixView<int32_t> selected;        // [rows, top_k]
  Pool pool = Pool::kNone;
  int candidate_block = 8;             // rows a block
  MatrixView<int32_t> candidates;      // [rows, candidate_topk_blocks]: kept blocks, ascending, -1 fills; made or used
};

}  // namespace deepinfer
