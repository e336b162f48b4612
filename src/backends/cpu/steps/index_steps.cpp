// The indexer's selection.  Keys are scored kKeyTile at a time and the best are kept in a bounded buffer, so that
// memory does not grow with the history.  Many rows: blocks of rows share unpacked keys, one thread a block.  Few rows:
// threads share a row's keys and their selections are merged, which no order can change.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "backends/cpu/steps/best_rows.h"
#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "base/check.h"
#include "tensor/formats.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kBlockRows = 8;  // queries that share unpacked keys
constexpr int kMostIndexDim = 256;

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Keys of a task when threads share a row: a multiple of every candidate block and tile, and some ten microseconds.
int64_t range_keys(const IndexTopk& op) {
  constexpr int64_t kRangeWork = 1 << 20, kLeast = 128, kMost = 1024;
  return std::clamp(round_up(kRangeWork / (int64_t{op.heads} * op.head_dim), kKeyTile), kLeast, kMost);
}

int64_t visible_keys(const IndexTopk& op, const IndexSequence& sequence, int64_t offset) {
  return (sequence.position + offset + 1) / op.ratio;
}

const uint8_t* key_record(const IndexSequence& sequence, int64_t j) {
  return reinterpret_cast<const uint8_t*>(sequence.keys.record(j));
}

// Records [first, first + count); the last one fills up the tile.  One division for all.
void find_keys(const BlockList& keys, int64_t first, int64_t count, const uint8_t** to) {
  int64_t block = first / keys.rows_per_block, row = first % keys.rows_per_block;
  for (int64_t k = 0; k < kKeyTile; ++k) {
    to[k] = reinterpret_cast<const uint8_t*>(keys.blocks[block]) + row * keys.record_bytes;
    if (k + 1 >= count) continue;
    if (++row == keys.rows_per_block) {
      row = 0;
      ++block;
    }
  }
}

// Scores of keys [first, first + count) of one row; count <= kKeyTile, first a multiple of the candidate block.
void collect(const IndexTopk& op, int64_t visible, int64_t first, int64_t count, const float* scores,
             RowSelection& to) {
  for (int64_t j = 0; j < count; ++j) to.rows.add(scores[j], static_cast<int32_t>(first + j));
  if (op.pool != IndexTopk::Pool::kMake) return;
  const int64_t newest = (visible - 1) / op.candidate_block;
  for (int64_t j = 0; j < count; j += op.candidate_block) {
    const int64_t block = (first + j) / op.candidate_block;
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t i = j; i < std::min(count, j + op.candidate_block); ++i) best = std::max(best, scores[i]);
    if (block == newest) best = std::numeric_limits<float>::infinity();
    to.blocks.add(best, static_cast<int32_t>(block));
  }
}

void write_selection(const IndexTopk& op, int64_t row, RowSelection& selection, uint64_t* bitmap) {
  selection.rows.write(op.selected.row(row), op.top_k, bitmap);
  if (op.pool == IndexTopk::Pool::kMake) selection.blocks.write(op.candidates.row(row), op.candidates.columns, bitmap);
}

}  // namespace

// Of one thread: kBlockRows queries and their selections.
struct Steps::IndexScratch {
  IndexQueryView query[kBlockRows];
  int8_t* values;
  float* scales;
  int32_t* offsets;
  float* weights;
  uint64_t* best_rows;
  uint64_t* best_blocks;
  uint64_t* bitmap;  // a bit for every key
  int64_t rows_capacity;
  int64_t blocks_capacity;

  RowSelection selection(int64_t r, int64_t top_k, int64_t blocks) const {
    return {BestRows(best_rows + r * rows_capacity, top_k), BestRows(best_blocks + r * blocks_capacity, blocks)};
  }
};

Status Steps::prepare_index(const OpsLimits& limits) {
  const int64_t heads = limits.index_heads, groups = kMostIndexDim / kIndexGroup;
  const int64_t query = heads * (kMostIndexDim + groups * 8 + 4);
  const int64_t best = 8 * (BestRows::capacity_for(limits.top_k) + BestRows::capacity_for(limits.candidate_blocks));
  index_bytes_ = round_up(kBlockRows * (query + best) + 8 * (limits.max_position / 64 + 2), 64);
  DI_ASSIGN_OR_RETURN(index_, Buffer::allocate(static_cast<uint64_t>(index_bytes_ * pool_.threads())));
  selections_.resize(static_cast<size_t>(kBlockRows * pool_.threads()));
  return {};
}

Steps::IndexScratch Steps::index_scratch(int64_t thread) {
  const int64_t heads = limits_.index_heads, groups = kMostIndexDim / kIndexGroup;
  IndexScratch scratch;
  scratch.rows_capacity = BestRows::capacity_for(limits_.top_k);
  scratch.blocks_capacity = BestRows::capacity_for(limits_.candidate_blocks);
  std::byte* at = index_.data() + thread * index_bytes_;
  const auto take = [&](int64_t bytes) { return std::exchange(at, at + bytes); };
  scratch.bitmap = reinterpret_cast<uint64_t*>(take(8 * (limits_.max_position / 64 + 2)));
  scratch.best_rows = reinterpret_cast<uint64_t*>(take(kBlockRows * 8 * scratch.rows_capacity));
  scratch.best_blocks = reinterpret_cast<uint64_t*>(take(kBlockRows * 8 * scratch.blocks_capacity));
  scratch.scales = reinterpret_cast<float*>(take(kBlockRows * heads * groups * 4));
  scratch.offsets = reinterpret_cast<int32_t*>(take(kBlockRows * heads * groups * 4));
  scratch.weights = reinterpret_cast<float*>(take(kBlockRows * heads * 4));
  scratch.values = reinterpret_cast<int8_t*>(take(kBlockRows * heads * kMostIndexDim));
  return scratch;
}

void Steps::unpack_queries(const IndexTopk& op, int64_t first, int64_t rows, IndexScratch& scratch) {
  const int groups = op.head_dim / kIndexGroup;
  const auto factor = static_cast<float>(std::pow(static_cast<double>(op.head_dim) * op.heads, -0.5));
  for (int64_t r = 0; r < rows; ++r) {
    int8_t* values = scratch.values + r * op.heads * op.head_dim;
    float* scales = scratch.scales + r * op.heads * groups;
    int32_t* offsets = scratch.offsets + r * op.heads * groups;
    float* weights = scratch.weights + r * op.heads;
    kernels_.unpack_index_query(op.queries.row(first + r), op.heads, op.head_dim, values, scales, offsets);
    for (int h = 0; h < op.heads; ++h) weights[h] = to_float(op.weights.row(first + r)[h]) * factor;
    scratch.query[r] = {values, scales, offsets, weights};
  }
}

// Scores keys [begin, end) for rows [offset, offset + rows) of a sequence; begin is a multiple of kKeyTile.
void Steps::score_keys(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, int64_t rows,
                       const IndexScratch& queries, int64_t begin, int64_t end, RowSelection* selections) {
  alignas(64) float scores[kBlockRows * kKeyTile];
  int64_t visible[kBlockRows];
  for (int64_t r = 0; r < rows; ++r) visible[r] = visible_keys(op, sequence, offset + r);
  int64_t from = 0;  // the first row that sees anything here: later rows see at least as much
  for (int64_t j = begin; j < end; j += kKeyTile) {
    const uint8_t* keys[kKeyTile];
    find_keys(sequence.keys, j, std::min<int64_t>(kKeyTile, end - j), keys);
    while (visible[from] <= j) ++from;
    kernels_.index_scores(queries.query + from, static_cast<int>(rows - from), op.heads, op.head_dim, keys, scores,
                          kKeyTile);
    for (int64_t r = from; r < rows; ++r) {
      collect(op, visible[r], j, std::min<int64_t>(kKeyTile, visible[r] - j), scores + (r - from) * kKeyTile,
              selections[r]);
    }
  }
}

// Rows [offset, offset + rows) of a sequence on one thread; rows <= kBlockRows.
void Steps::select_rows(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, int64_t rows, int thread) {
  IndexScratch scratch = index_scratch(thread);
  const int64_t first_row = sequence.first_row + offset;
  unpack_queries(op, first_row, rows, scratch);
  RowSelection* const own = selections_.data() + thread * kBlockRows;
  for (int64_t r = 0; r < rows; ++r) own[r] = scratch.selection(r, op.top_k, op.candidates.columns);
  score_keys(op, sequence, offset, rows, scratch, 0, visible_keys(op, sequence, offset + rows - 1), own);
  for (int64_t r = 0; r < rows; ++r) write_selection(op, first_row + r, own[r], scratch.bitmap);
}

// Scores the keys of candidate blocks [begin, end) of a row's list.
void Steps::score_blocks(const IndexTopk& op, const IndexSequence& sequence, int64_t offset,
                         const IndexQueryView& query, int64_t begin, int64_t end, BestRows& best) {
  const int32_t* blocks = op.candidates.row(sequence.first_row + offset);
  const int64_t visible = visible_keys(op, sequence, offset);
  alignas(64) float scores[kKeyTile];
  const uint8_t* keys[kKeyTile];
  int32_t index[kKeyTile];
  int count = 0;
  const auto score_tile = [&] {
    if (count == 0) return;
    for (int k = count; k < kKeyTile; ++k) keys[k] = keys[0];
    kernels_.index_scores(&query, 1, op.heads, op.head_dim, keys, scores, kKeyTile);
    for (int k = 0; k < count; ++k) best.add(scores[k], index[k]);
    count = 0;
  };
  for (int64_t b = begin; b < end && blocks[b] >= 0; ++b) {
    const int64_t first = int64_t{blocks[b]} * op.candidate_block;
    for (int64_t j = first; j < std::min(visible, first + op.candidate_block); ++j) {
      keys[count] = key_record(sequence, j);
      index[count++] = static_cast<int32_t>(j);
      if (count == kKeyTile) score_tile();
    }
  }
  score_tile();
}

// One row that may only take keys of its candidate blocks.
void Steps::select_from_pool(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, int thread) {
  IndexScratch scratch = index_scratch(thread);
  const int64_t row = sequence.first_row + offset;
  unpack_queries(op, row, 1, scratch);
  BestRows best = scratch.selection(0, op.top_k, 0).rows;
  score_blocks(op, sequence, offset, scratch.query[0], 0, op.candidates.columns, best);
  best.write(op.selected.row(row), op.top_k, scratch.bitmap);
}

// The same with all threads sharing the pool.
void Steps::select_from_long_pool(const IndexTopk& op, const IndexSequence& sequence, int64_t offset) {
  IndexScratch scratch = index_scratch(0);
  const int64_t row = sequence.first_row + offset, blocks = op.candidates.columns;
  unpack_queries(op, row, 1, scratch);
  for (int t = 0; t < pool_.threads(); ++t) selections_[t * kBlockRows] = index_scratch(t).selection(0, op.top_k, 0);
  const int64_t range = std::max<int64_t>(1, range_keys(op) / op.candidate_block);
  for_each_task(pool_, (blocks + range - 1) / range, [&](int64_t task, int thread) {
    score_blocks(op, sequence, offset, scratch.query[0], task * range, std::min(blocks, (task + 1) * range),
                 selections_[thread * kBlockRows].rows);
  });
  for (int t = 1; t < pool_.threads(); ++t) selections_[0].rows.add_all(selections_[t * kBlockRows].rows);
  selections_[0].rows.write(op.selected.row(row), op.top_k, scratch.bitmap);
}

// A few rows whose keys all threads share; rows <= kBlockRows.
void Steps::select_long_rows(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, int64_t rows) {
  const int64_t first_row = sequence.first_row + offset, most = visible_keys(op, sequence, offset + rows - 1);
  IndexScratch query = index_scratch(0);
  unpack_queries(op, first_row, rows, query);
  for (int t = 0; t < pool_.threads(); ++t) {
    for (int64_t r = 0; r < rows; ++r) {
      selections_[t * kBlockRows + r] = index_scratch(t).selection(r, op.top_k, op.candidates.columns);
    }
  }
  const int64_t range = range_keys(op);
  for_each_task(pool_, (most + range - 1) / range, [&](int64_t task, int thread) {
    RowSelection* const own = selections_.data() + thread * kBlockRows;
    score_keys(op, sequence, offset, rows, query, task * range, std::min(most, (task + 1) * range), own);
  });
  for_each_task(pool_, rows, [&](int64_t r, int thread) {
    for (int t = 1; t < pool_.threads(); ++t) {
      selections_[r].rows.add_all(selections_[t * kBlockRows + r].rows);
      selections_[r].blocks.add_all(selections_[t * kBlockRows + r].blocks);
    }
    write_selection(op, first_row + r, selections_[r], index_scratch(thread).bitmap);
  });
}

void Steps::index_topk(const IndexTopk& op) {
  DI_CHECK(op.selected.columns == op.top_k && op.top_k <= limits_.top_k && op.heads <= limits_.index_heads &&
               op.head_dim <= kMostIndexDim && op.head_dim % kIndexGroup == 0,
           "selected is [rows, top_k], and prepare() was told the largest top_k and head count");
  const bool make = op.pool == IndexTopk::Pool::kMake, use = op.pool == IndexTopk::Pool::kUse;
  DI_CHECK(!(make || use) || (op.candidates.columns <= limits_.candidate_blocks && op.candidate_block > 0 &&
                              kKeyTile % op.candidate_block == 0),
           "a candidate block has 1, 2, 4, 8 or 16 rows, and prepare() was told the largest pool");
  const int64_t unit = use ? 1 : kBlockRows;  // rows of a task; the pools of two rows differ
  int64_t tasks = 0;
  bool long_history = false;
  for (int s = 0; s < op.sequence_count; ++s) {
    const IndexSequence& sequence = op.sequences[s];
    DI_CHECK(sequence.keys.record_bytes == index_record_bytes(op.head_dim), "keys and queries have one record size");
    tasks += (sequence.rows + unit - 1) / unit;
    const int64_t most = sequence.rows > 0 ? visible_keys(op, sequence, sequence.rows - 1) : 0;
    DI_CHECK(most <= limits_.max_position + 1, "prepare() was told a shorter context");
    long_history |= most >= 3 * range_keys(op);
  }
  if (tasks < pool_.threads() && long_history) {
    for (int s = 0; s < op.sequence_count; ++s) {
      const IndexSequence& sequence = op.sequences[s];
      for (int64_t first = 0; first < sequence.rows; first += unit) {
        if (use) {
          select_from_long_pool(op, sequence, first);
        } else {
          select_long_rows(op, sequence, first, std::min(kBlockRows, sequence.rows - first));
        }
      }
    }
    return;
  }
  for_each_task(pool_, tasks, [&](int64_t task, int thread) {
    const IndexSequence* sequence = op.sequences;
    int64_t first = task * unit;
    while (first >= sequence->rows) {
      const int64_t before = (sequence->rows + unit - 1) / unit * unit;
      first -= before;
      ++sequence;
    }
    if (use) {
      select_from_pool(op, *sequence, first, thread);
    } else {
      select_rows(op, *sequence, first, std::min(kBlockRows, sequence->rows - first), thread);
    }
  });
}

}  // namespace deepinfer::cpu
