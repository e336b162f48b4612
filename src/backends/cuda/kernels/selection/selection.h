// The lightning indexer's selection, ops/index_topk.h, over `count` rows of the list from `first` on.  Operands in
// device memory; op.sequences is not looked at, the list beside it is.
//
// The keys of a row are cut into splits; a block streams over one of them and keeps the best; a second kernel takes the
// best of all splits.  Scores are exact, so that the cuts never show.  A kept row or block is a 64-bit key: the order
// of the score in the upper half, the complement of the index in the lower, so that the larger of two keys is the
// better.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/sequence_list.h"
#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/index_topk.h"

namespace deepinfer::cuda {

struct BestOfSplits {
  uint64_t* keys = nullptr;   // [count, splits, most]
  int32_t* counts = nullptr;  // [count, splits]
  int64_t most = 0;
};

struct SelectionStep {
  IndexTopk op;
  SequenceList<IndexSequence> list;
  int64_t first = 0, count = 0;  // rows of the list
  int64_t visible = 0;           // keys that a row sees, at most
  int64_t splits = 0;            // splits_of_keys() of the longest row
  BestOfSplits rows;             // most: top_k
  BestOfSplits blocks;           // most: columns of candidates; where a pool is made
};

// For rows that look through `keys` keys: visible ones, or all rows of the candidate pool.
int64_t splits_of_keys(int64_t keys, int candidate_block);

Status any_index_scores(const SelectionStep& step, Stream stream);
// Writes `selected`, and `candidates` where a pool is made.
Status any_index_best(const SelectionStep& step, Stream stream);

// How a path selects.  splits: of a row, where `rows` rows look through up to `keys` keys each.
struct SelectionKernels {
  int64_t (*splits)(const IndexTopk& op, int64_t keys, int64_t rows);
  Status (*scores)(const SelectionStep& step, Stream stream);
  Status (*best)(const SelectionStep& step, Stream stream);
};

// For heads of 128 channels, at most 32 of them, and candidate blocks of 8 or 16: scores by tensor cores, lists of the
// splits in descending order.  Here a split is a share of a row's tiles of kSm90IndexTile keys.
constexpr int kSm90IndexHeads = 32, kSm90IndexHeadDim = 128, kSm90IndexTile = 256;
bool sm90_index_takes(const IndexTopk& op);
int64_t sm90_index_splits(int64_t keys, int64_t rows);
Status sm90_index_scores(const SelectionStep& step, Stream stream);
Status sm90_index_best(const SelectionStep& step, Stream stream);

}  // namespace deepinfer::cuda
