// Row invariance of the steps with cached state: rows of several sequences, cut into chunks at any place.
#include <algorithm>
#include <array>

#include "ops/cached_records.h"
#include "ops/random_data.h"
#include "ops/row_invariance.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr float kEps = 1e-20f;
constexpr int64_t kWidth = 512;
constexpr int kIndexDim = 128;

const std::vector<float>& frequencies() {
  static const std::vector<float> values = rope_frequencies(64, 10000, {});
  return values;
}

RopeTable table() {
  return {frequencies().data(), 32};
}

// Three sequences: one at its beginning, one longer than the window, one whose rows begin at an odd position.
std::vector<CachedRow> cached_rows() {
  std::vector<CachedRow> rows;
  for (const auto& [sequence, first, count] :
       {std::array<int64_t, 3>{0, 0, 9}, std::array<int64_t, 3>{1, 300, 7}, std::array<int64_t, 3>{2, 77, 5}}) {
    for (int64_t i = 0; i < count; ++i) rows.push_back({static_cast<int>(sequence), first + i});
  }
  return rows;
}
constexpr int64_t kLastPosition = 307;  // of any sequence, plus one

// Rows of each sequence, as records that every test of it shares.
template <typename Encode>
std::vector<Matrix<uint8_t>> records_of_sequences(RandomData& random, int64_t rows, int64_t width, int64_t record_bytes,
                                                  Encode encode) {
  std::vector<Matrix<uint8_t>> all;
  for (int sequence = 0; sequence < 3; ++sequence) {
    const Matrix<bf16> values = random.activations(rows, width);
    Matrix<uint8_t> records(rows, record_bytes);
    for (int64_t j = 0; j < rows; ++j) encode(values.row(j), width, records.row(j));
    all.push_back(std::move(records));
  }
  return all;
}

std::vector<BlockRecords> in_blocks(const std::vector<Matrix<uint8_t>>& records) {
  std::vector<BlockRecords> blocks;
  for (const auto& rows : records) {
    blocks.emplace_back(rows.rows(), rows.columns(), 16);
    for (int64_t j = 0; j < rows.rows(); ++j) std::copy_n(rows.row(j), rows.columns(), blocks.back().record(j));
  }
  return blocks;
}

}  // namespace

TEST_P(RowInvariance, IndexTopk) {
  constexpr int kHeads = 32;
  constexpr int kTopK = 24;
  constexpr int64_t kBlocks = 6;
  const std::vector<CachedRow> rows = cached_rows();
  const auto count = static_cast<int64_t>(rows.size());
  for (const int ratio : {1, 2}) {
    RandomData random(20);
    const auto keys = records_of_sequences(random, kLastPosition, kIndexDim, index_record_bytes(kIndexDim),
                                           [](auto... args) { encode_index_row(args...); });
    const std::vector<BlockRecords> blocks = in_blocks(keys);
    const Matrix<bf16> values = random.activations(count, int64_t{kHeads} * kIndexDim);
    Matrix<uint8_t> queries(count, kHeads * index_record_bytes(kIndexDim));
    for (int64_t m = 0; m < count; ++m) {
      for (int h = 0; h < kHeads; ++h) {
        encode_index_row(values.row(m) + h * kIndexDim, kIndexDim, queries.row(m) + h * index_record_bytes(kIndexDim));
      }
    }
    const Matrix<bf16> weights = random.bf16s(count, kHeads, 0, 1);
    expect_rows_independent(count, 20, [&](std::span<const int64_t> picked) {
      const Matrix<uint8_t> in = pick_rows(queries, picked);
      const Matrix<bf16> weight = pick_rows(weights, picked);
      std::vector<IndexSequence> sequences;
      for (const RowRun& run : runs_of(rows, picked)) {
        sequences.push_back({run.first_row, run.rows, run.position, blocks[run.sequence].list()});
      }
      Matrix<int32_t> selected(in.rows(), kTopK);
      Matrix<int32_t> restricted(in.rows(), kTopK);
      Matrix<int32_t> candidates(in.rows(), kBlocks);
      IndexTopk op{.queries = in.view(),
                   .weights = weight.view(),
                   .heads = kHeads,
                   .head_dim = kIndexDim,
                   .ratio = ratio,
                   .sequences = sequences.data(),
                   .sequence_count = static_cast<int>(sequences.size()),
                   .top_k = kTopK,
                   .selected = selected.view(),
                   .pool = IndexTopk::Pool::kMake,
                   .candidate_block = 8,
                   .candidates = candidates.view()};
      ops_->index_topk(op);
      op.pool = IndexTopk::Pool::kUse;
      op.selected = restricted.view();
      ops_->index_topk(op);
      RowBytes out;
      append_rows(out, selected);
      append_rows(out, candidates);
      append_rows(out, restricted);
      return out;
    });
  }
}

TEST_P(RowInvariance, SparseAttention) {
  constexpr int64_t kTopK = 40;
  const std::vector<CachedRow> rows = cached_rows();
  const auto count = static_cast<int64_t>(rows.size());
  for (const int heads : {4, 64}) {
    RandomData random(21);
    auto window = records_of_sequences(random, kLastPosition, kWidth, fp8_record_bytes(kWidth),
                                       [](auto... args) { encode_fp8_row(args...); });
    // One row that is no number concerns the rows that see it.
    *window[rows.back().sequence].row(rows.back().position) = 0x7F;
    const auto compressed = records_of_sequences(random, kLastPosition, kWidth, main_kv_record_bytes(kWidth),
                                                 [](auto... args) { encode_main_kv_row(args...); });
    const std::vector<BlockRecords> blocks = in_blocks(compressed);
    const Matrix<bf16> queries = random.bf16s(count, heads * kWidth, 0, 0.3f);
    const Matrix<float> sink = random.floats(1, heads, 1);
    Matrix<int32_t> lists(count, kTopK, -1);
    for (int64_t m = 0; m < count; ++m) {
      std::vector<int64_t> visible = random.shuffled(rows[m].position + 1);
      visible.resize(std::min<size_t>(visible.size(), kTopK));
      std::sort(visible.begin(), visible.end());
      std::copy(visible.begin(), visible.end(), lists.row(m));
    }
    expect_rows_independent(count, 21, [&](std::span<const int64_t> picked) {
      Matrix<bf16> q = pick_rows(queries, picked);
      const Matrix<int32_t> selected = pick_rows(lists, picked);
      Matrix<uint8_t> step(q.rows(), fp8_record_bytes(kWidth));
      std::vector<RingRecords> rings;
      std::vector<AttentionSequence> sequences;
      for (const RowRun& run : runs_of(rows, picked)) {
        rings.emplace_back(134, fp8_record_bytes(kWidth));
        for (int64_t p = std::max<int64_t>(0, run.position - 134); p < run.position; ++p) {
          std::copy_n(window[run.sequence].row(p), step.columns(), rings.back().record(p));
        }
        for (int64_t i = 0; i < run.rows; ++i) {
          std::copy_n(window[run.sequence].row(run.position + i), step.columns(), step.row(run.first_row + i));
        }
        sequences.push_back({.first_row = run.first_row,
                             .rows = run.rows,
                             .position = run.position,
                             .ring = rings.back().ring(),
                             .first_record = run.first_row,
                             .step_records = run.rows,
                             .step_position = run.position,
                             .compressed = blocks[run.sequence].list()});
      }
      Matrix<bf16> o(q.rows(), q.columns());
      Matrix<bf16> window_only(q.rows(), q.columns());
      SparseAttention op{.q = q.view(),
                         .heads = heads,
                         .head_dim = static_cast<int>(kWidth),
                         .window_size = 128,
                         .step_records = step.view(),
                         .sequences = sequences.data(),
                         .sequence_count = static_cast<int>(sequences.size()),
                         .selected = selected.view(),
                         .sink = sink.row(0),
                         .o = o.view()};
      ops_->sparse_attention(op);
      RowBytes out;
      append_rows(out, o);
      if (heads == 64) return out;
      op.selected = {};
      op.o = window_only.view();
      ops_->sparse_attention(op);
      append_rows(out, window_only);
      return out;
    });
  }
}

// A draft block is one unit: every row of it sees all of it.
TEST_P(RowInvariance, DraftAttention) {
  constexpr int64_t kBlock = 5;
  constexpr int64_t kHeads = 4;
  const std::array<int64_t, 4> positions = {1, 60, 128, 500};
  RandomData random(22);
  std::vector<RingRecords> rings;
  for (const int64_t position : positions) {
    rings.emplace_back(133, fp8_record_bytes(kWidth));
    const Matrix<bf16> context = random.activations(position, kWidth);
    for (int64_t p = 0; p < position; ++p) encode_fp8_row(context.row(p), kWidth, rings.back().record(p));
  }
  const Matrix<bf16> queries = random.bf16s(4, kBlock * kHeads * kWidth, 0, 0.3f);
  const Matrix<bf16> drafts = random.activations(4, kBlock * kWidth);
  const Matrix<float> sink = random.floats(1, kHeads, 1);
  expect_rows_independent(4, 22, [&](std::span<const int64_t> picked) {
    Matrix<bf16> q = pick_rows(queries, picked);
    const Matrix<bf16> kv = pick_rows(drafts, picked);
    Matrix<uint8_t> step(q.rows() * kBlock, fp8_record_bytes(kWidth));
    std::vector<AttentionSequence> sequences;
    for (int64_t i = 0; i < q.rows(); ++i) {
      for (int64_t j = 0; j < kBlock; ++j) {
        encode_fp8_row(kv.row(i) + j * kWidth, kWidth, step.row(i * kBlock + j));
      }
      const int64_t position = positions[picked[i]];
      sequences.push_back({.first_row = i * kBlock,
                           .rows = kBlock,
                           .position = position,
                           .ring = rings[picked[i]].ring(),
                           .first_record = i * kBlock,
                           .step_records = kBlock,
                           .step_position = position,
                           .first_visible = position == 500 ? 450 : 0,
                           .compressed = {}});
    }
    Matrix<bf16> o(q.rows(), q.columns());
    ops_->sparse_attention({.q = {q.row(0), q.rows() * kBlock, kHeads * kWidth},
                            .heads = kHeads,
                            .head_dim = static_cast<int>(kWidth),
                            .window_size = 128,
                            .window = SparseAttention::Window::kDraftBlock,
                            .step_records = step.view(),
                            .sequences = sequences.data(),
                            .sequence_count = static_cast<int>(sequences.size()),
                            .selected = {},
                            .sink = sink.row(0),
                            .o = {o.row(0), o.rows() * kBlock, kHeads * kWidth}});
    RowBytes out;
    append_rows(out, o);
    return out;
  });
}

TEST_P(RowInvariance, StoredRecords) {
  const std::vector<CachedRow> rows = cached_rows();  // position stands for the record
  const auto count = static_cast<int64_t>(rows.size());
  RandomData random(23);
  const Matrix<bf16> latents = random.activations(count, kWidth);
  const Matrix<bf16> keys = random.activations(count, kIndexDim);
  const Matrix<bf16> norm = random.bf16s(1, kIndexDim, 1, 0.2f);
  expect_rows_independent(count, 23, [&](std::span<const int64_t> picked) {
    const Matrix<bf16> latent = pick_rows(latents, picked);
    const Matrix<bf16> key = pick_rows(keys, picked);
    std::vector<BlockRecords> latent_blocks;
    std::vector<BlockRecords> key_blocks;
    for (int sequence = 0; sequence < 3; ++sequence) {
      latent_blocks.emplace_back(kLastPosition, main_kv_record_bytes(kWidth), 16);
      key_blocks.emplace_back(kLastPosition, index_record_bytes(kIndexDim), 16);
    }
    std::vector<StoreSequence> to_latents;
    std::vector<StoreSequence> to_keys;
    for (const RowRun& run : runs_of(rows, picked)) {
      to_latents.push_back({run.first_row, run.rows, run.position, latent_blocks[run.sequence].list()});
      to_keys.push_back({run.first_row, run.rows, run.position, key_blocks[run.sequence].list()});
    }
    const int runs = static_cast<int>(to_latents.size());
    ops_->store_compressed({.latent = latent.view(),
                            .ratio = 2,
                            .table = table(),
                            .sequences = to_latents.data(),
                            .sequence_count = runs});
    ops_->store_index_keys({.key = key.view(),
                            .norm = norm.row(0),
                            .eps = kEps,
                            .ratio = 2,
                            .table = table(),
                            .sequences = to_keys.data(),
                            .sequence_count = runs});
    Matrix<uint8_t> stored(latent.rows(), main_kv_record_bytes(kWidth));
    Matrix<uint8_t> stored_keys(latent.rows(), index_record_bytes(kIndexDim));
    for (size_t i = 0; i < picked.size(); ++i) {
      const CachedRow& row = rows[picked[i]];
      const auto at = static_cast<int64_t>(i);
      std::copy_n(latent_blocks[row.sequence].record(row.position), stored.columns(), stored.row(at));
      std::copy_n(key_blocks[row.sequence].record(row.position), stored_keys.columns(), stored_keys.row(at));
    }
    RowBytes out;
    append_rows(out, stored);
    append_rows(out, stored_keys);
    return out;
  });
}

// A prompt pooled and committed in any chunks leaves the same latent rows and the same ring.
TEST_P(RowInvariance, ChunksOfPooledPairsAndWindows) {
  constexpr int64_t kRows = 60;
  RandomData random(24);
  const Matrix<float> value = random.floats(kRows, kWidth, 1);
  const Matrix<float> gate = random.floats(kRows, kWidth, 2);
  const Matrix<bf16> norm = random.bf16s(1, kWidth, 1, 0.2f);
  const Matrix<bf16> kv = random.activations(kRows, kWidth);
  Matrix<uint8_t> records(kRows, fp8_record_bytes(kWidth));
  for (int64_t m = 0; m < kRows; ++m) encode_fp8_row(kv.row(m), kWidth, records.row(m));

  const auto in_chunks = [&](const std::vector<int64_t>& borders) {
    Matrix<bf16> latent(kRows / 2, kWidth);
    RingRecords half_groups(7, 2 * kWidth * int64_t{sizeof(float)});
    RingRecords ring(34, records.columns());
    for (size_t i = 0; i + 1 < borders.size(); ++i) {
      const int64_t first = borders[i];
      const int64_t rows = borders[i + 1] - first;
      const CompressSequence pool{.first_row = first,
                                  .rows = rows,
                                  .position = first,
                                  .first_group = first / 2,
                                  .half_groups = half_groups.ring()};
      ops_->compress_pairs({.value = value.view(),
                            .gate = gate.view(),
                            .sequences = &pool,
                            .sequence_count = 1,
                            .norm = norm.row(0),
                            .eps = kEps,
                            .latent = latent.view()});
      const WindowCommit commit{.ring = ring.ring(), .first_row = first, .rows = rows, .position = first};
      ops_->commit_window({.records = records.view(), .sequences = &commit, .sequence_count = 1});
    }
    RowBytes out;
    append_rows(out, latent);
    for (int64_t p = kRows - 34; p < kRows; ++p) {
      const auto* record = reinterpret_cast<const std::byte*>(ring.record(p));
      out.emplace_back(record, record + records.columns());
      EXPECT_TRUE(std::equal(ring.record(p), ring.record(p) + records.columns(), records.row(p)));
    }
    return out;
  };
  const RowBytes whole = in_chunks({0, kRows});
  for (int i = 0; i < 8; ++i) {
    std::vector<int64_t> borders = {0, kRows};
    for (int64_t j = 1 + random.below(20); j-- > 0;) borders.push_back(random.below(kRows));
    std::sort(borders.begin(), borders.end());
    EXPECT_TRUE(in_chunks(borders) == whole);
  }
}

}  // namespace deepinfer
