// Golden checks of the attention steps: projections, compressor, indexer, sparse attention.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cached_records.h"
#include "ops/golden_ops.h"
#include "ops/op_calls.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

const ModelWeights& weights() {
  return ModelWeights::demonstration();
}

std::vector<int64_t> to_vector(std::span<const int64_t> values) {
  return {values.begin(), values.end()};
}

RopeTable table_of(int layer) {
  return layer < 2 ? plain_rope() : compressed_rope();
}
int ratio_of(int layer) {
  return layer < 4 ? 2 : 1;
}

void projection(Ops& ops, const GoldenEntry& golden, int layer) {
  const Projection made = project(ops, "layers." + std::to_string(layer) + ".attn", golden.in_rows<bf16>("x", kHidden),
                                  to_vector(golden.in<int64_t>("position")), table_of(layer));
  golden.expect("qr", made.qr.values());
  golden.expect("q", made.q.values());
  golden.expect_equal<uint8_t>("record", made.records.values());
}

// The latent rows of a sequence that begins at position 0, in two steps cut at `cut`.
Matrix<bf16> latents(Ops& ops, const std::string& prefix, MatrixView<const bf16> x, int ratio, int64_t cut) {
  const std::string compressor = prefix + ".compressor";
  const bf16* norm_weight = weights().vector(compressor + ".norm.weight");
  if (ratio == 1) return norm(ops, multiply(ops, x, weights().plain(compressor + ".wkv.weight")).view(), norm_weight);
  const Matrix<float> value = multiply32(ops, x, weights().plain(compressor + ".wkv.weight"));
  const Matrix<float> gate = multiply32(ops, x, weights().plain(compressor + ".wgate.weight"));
  Matrix<bf16> latent(x.rows / 2, kHeadDim);
  RingRecords half_groups(7, 2 * kHeadDim * int64_t{sizeof(float)});
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, cut}, {cut, x.rows}}) {
    const CompressSequence sequence{.first_row = first,
                                    .rows = last - first,
                                    .position = first,
                                    .first_group = first / 2,
                                    .half_groups = half_groups.ring()};
    ops.compress_pairs({.value = value.view(),
                        .gate = gate.view(),
                        .sequences = &sequence,
                        .sequence_count = 1,
                        .norm = norm_weight,
                        .eps = kEps,
                        .latent = latent.view()});
  }
  return latent;
}

std::vector<uint8_t> all_records(BlockRecords& records, int64_t count, int64_t record_bytes) {
  std::vector<uint8_t> bytes;
  for (int64_t j = 0; j < count; ++j) bytes.insert(bytes.end(), records.record(j), records.record(j) + record_bytes);
  return bytes;
}

void compressor(Ops& ops, const GoldenEntry& golden, int layer) {
  const std::string prefix = "layers." + std::to_string(layer) + ".attn";
  const int ratio = ratio_of(layer);
  const MatrixView<const bf16> x = golden.in_rows<bf16>("x", kHidden);
  for (int64_t cut = 0; cut <= x.rows; ++cut) {
    const Matrix<bf16> latent = latents(ops, prefix, x, ratio, cut);
    golden.expect("latent", latent.values());
    const int64_t groups = latent.rows();
    BlockRecords rows(groups, main_kv_record_bytes(kHeadDim));
    BlockRecords keys(groups, index_record_bytes(kIndexDim));
    const StoreSequence to_rows{.first_row = 0, .rows = groups, .record = 0, .destination = rows.list()};
    ops.store_compressed({.latent = latent.view(),
                          .ratio = ratio,
                          .table = compressed_rope(),
                          .sequences = &to_rows,
                          .sequence_count = 1});
    golden.expect_equal<uint8_t>("row", all_records(rows, groups, main_kv_record_bytes(kHeadDim)));

    const Matrix<bf16> key = multiply(ops, latent.view(), weights().plain(prefix + ".indexer.wk.weight"));
    const StoreSequence to_keys{.first_row = 0, .rows = groups, .record = 0, .destination = keys.list()};
    ops.store_index_keys({.key = key.view(),
                          .norm = weights().vector(prefix + ".indexer.k_norm.weight"),
                          .eps = kEps,
                          .ratio = ratio,
                          .table = compressed_rope(),
                          .sequences = &to_keys,
                          .sequence_count = 1});
    golden.expect_equal<uint8_t>("key", all_records(keys, groups, index_record_bytes(kIndexDim)));
  }
}

// Marks `span` rows from each index * span of a list with -1 fills in a mask of `columns` rows.
std::vector<uint8_t> mask_of(const Matrix<int32_t>& lists, int64_t span, int64_t columns) {
  std::vector<uint8_t> mask(static_cast<size_t>(lists.rows() * columns), 0);
  for (int64_t m = 0; m < lists.rows(); ++m) {
    int32_t previous = -1;
    bool ended = false;
    for (const int32_t index : lists.row_values(m)) {
      ended = ended || index < 0;
      if (ended) {
        EXPECT_EQ(index, -1) << "fills come last";
        continue;
      }
      EXPECT_GT(index, previous) << "lists ascend";
      previous = index;
      for (int64_t j = index * span; j < std::min((index + 1) * span, columns); ++j) mask[m * columns + j] = 1;
    }
  }
  return mask;
}

Matrix<int32_t> lists_of(std::span<const uint8_t> mask, int64_t rows, int64_t span, int64_t width) {
  const auto columns = static_cast<int64_t>(mask.size()) / rows;
  Matrix<int32_t> lists(rows, width, -1);
  for (int64_t m = 0; m < rows; ++m) {
    int64_t count = 0;
    for (int64_t j = 0; j < columns; j += span) {
      if (mask[m * columns + j] != 0) lists.row(m)[count++] = static_cast<int32_t>(j / span);
    }
  }
  return lists;
}

void indexer(Ops& ops, const GoldenEntry& golden, int layer) {
  const std::string prefix = "layers." + std::to_string(layer) + ".attn.indexer";
  const MatrixView<const bf16> x = golden.in_rows<bf16>("x", kHidden);
  const auto position = to_vector(golden.in<int64_t>("position"));
  const MatrixView<const bf16> key_values = golden.in_rows<bf16>("key", kIndexDim);
  constexpr int64_t kCandidateBlocks = 64;
  constexpr int64_t kBlockRows = 8;

  BlockRecords keys(key_values.rows, index_record_bytes(kIndexDim), 32);
  for (int64_t j = 0; j < key_values.rows; ++j) encode_index_row(key_values.row(j), kIndexDim, keys.record(j));
  const Matrix<bf16> q = quantized_linear(ops, golden.in_rows<bf16>("qr", 128), weights().linear(prefix + ".wq_b"));
  Matrix<uint8_t> queries(x.rows, kIndexHeads * index_record_bytes(kIndexDim));
  ops.make_index_queries({.q = q.view(),
                          .heads = kIndexHeads,
                          .head_dim = kIndexDim,
                          .position = position.data(),
                          .table = compressed_rope(),
                          .records = queries.view()});
  const Matrix<bf16> head_weights = multiply(ops, x, weights().plain(prefix + ".weights_proj.weight"));

  const IndexSequence sequence{.first_row = 0, .rows = x.rows, .position = position.front(), .keys = keys.list()};
  Matrix<int32_t> selected(x.rows, kIndexTopk);
  Matrix<int32_t> candidates(x.rows, kCandidateBlocks);
  IndexTopk op{.queries = queries.view(),
               .weights = head_weights.view(),
               .heads = kIndexHeads,
               .head_dim = kIndexDim,
               .ratio = ratio_of(layer),
               .sequences = &sequence,
               .sequence_count = 1,
               .top_k = kIndexTopk,
               .selected = selected.view(),
               .pool = layer == 4 ? IndexTopk::Pool::kMake : IndexTopk::Pool::kNone,
               .candidate_block = kBlockRows,
               .candidates = candidates.view()};
  if (golden.has_in("candidate")) {
    op.pool = IndexTopk::Pool::kUse;
    candidates = lists_of(golden.in<uint8_t>("candidate"), x.rows, kBlockRows, kCandidateBlocks);
    op.candidates = candidates.view();
  }
  ops.index_topk(op);
  golden.expect_equal<uint8_t>("select", mask_of(selected, 1, key_values.rows));
  if (layer == 4) golden.expect_equal<uint8_t>("pool", mask_of(candidates, kBlockRows, key_values.rows));
}

// The window rows lie in the ring up to the position before `step_position` and in the step from there on.
Matrix<bf16> attend(Ops& ops, const GoldenEntry& golden, int layer, int64_t step_rows) {
  Matrix<bf16> q(golden.in<bf16>("q"), kHeads * kHeadDim);
  const MatrixView<const bf16> window = golden.in_rows<bf16>("window", kHeadDim);
  const auto position = to_vector(golden.in<int64_t>("position"));
  const int64_t first_position = position.back() + 1 - window.rows;
  const int64_t step_position = position.back() + 1 - step_rows;
  const int64_t record_bytes = fp8_record_bytes(kHeadDim);

  RingRecords ring(134, record_bytes);
  Matrix<uint8_t> step(step_rows, record_bytes);
  for (int64_t i = 0; i < window.rows; ++i) {
    const int64_t p = first_position + i;
    encode_fp8_row(window.row(i), kHeadDim, p < step_position ? ring.record(p) : step.row(p - step_position));
  }
  AttentionSequence sequence{.first_row = 0,
                             .rows = q.rows(),
                             .position = position.front(),
                             .ring = ring.ring(),
                             .first_record = 0,
                             .step_records = step_rows,
                             .step_position = step_position,
                             .compressed = {}};
  Matrix<bf16> o(q.rows(), q.columns());
  SparseAttention op{.q = q.view(),
                     .heads = kHeads,
                     .head_dim = kHeadDim,
                     .window_size = kWindow,
                     .step_records = step.view(),
                     .sequences = &sequence,
                     .sequence_count = 1,
                     .selected = {},
                     .sink = weights().floats("layers." + std::to_string(layer) + ".attn.attn_sink"),
                     .o = o.view()};
  if (!golden.has_in("row")) {
    ops.sparse_attention(op);
    return o;
  }
  const MatrixView<const bf16> rows = golden.in_rows<bf16>("row", kHeadDim);
  BlockRecords compressed(rows.rows, main_kv_record_bytes(kHeadDim), 32);
  for (int64_t j = 0; j < rows.rows; ++j) encode_main_kv_row(rows.row(j), kHeadDim, compressed.record(j));
  sequence.compressed = compressed.list();
  const Matrix<int32_t> selected = lists_of(golden.in<uint8_t>("select"), q.rows(), 1, kIndexTopk);
  op.selected = selected.view();
  ops.sparse_attention(op);
  return o;
}

void attention(Ops& ops, const GoldenEntry& golden, int layer) {
  Matrix<bf16> o = attend(ops, golden, layer, 6);
  golden.expect("o", o.values());
  for (const int64_t step_rows : {7, 100, 133}) {  // prefill may bring more rows than queries
    const Matrix<bf16> again = attend(ops, golden, layer, step_rows);
    EXPECT_TRUE(std::equal(o.values().begin(), o.values().end(), again.values().begin()))
        << "the same rows from the step instead of the ring, " << step_rows << " of them";
  }
  golden.expect("y", project_output(ops, "layers." + std::to_string(layer) + ".attn", o,
                                    to_vector(golden.in<int64_t>("position")), table_of(layer))
                         .values());
}

template <int kLayer>
constexpr auto kProjection = [](Ops& ops, const GoldenEntry& golden) { projection(ops, golden, kLayer); };
template <int kLayer>
constexpr auto kCompressor = [](Ops& ops, const GoldenEntry& golden) { compressor(ops, golden, kLayer); };
template <int kLayer>
constexpr auto kIndexer = [](Ops& ops, const GoldenEntry& golden) { indexer(ops, golden, kLayer); };
template <int kLayer>
constexpr auto kAttention = [](Ops& ops, const GoldenEntry& golden) { attention(ops, golden, kLayer); };

constexpr GoldenCheck kChecks[] = {
    {"compressor.2.1", kCompressor<2>}, {"compressor.2.2", kCompressor<2>}, {"compressor.2.7", kCompressor<2>},
    {"compressor.2.8", kCompressor<2>}, {"compressor.4.1", kCompressor<4>}, {"compressor.4.2", kCompressor<4>},
    {"compressor.4.7", kCompressor<4>}, {"compressor.4.8", kCompressor<4>}, {"indexer.2", kIndexer<2>},
    {"indexer.4", kIndexer<4>},         {"indexer.6", kIndexer<6>},         {"attention.0", kAttention<0>},
    {"projection.0", kProjection<0>},   {"attention.2", kAttention<2>},     {"projection.2", kProjection<2>},
    {"attention.4", kAttention<4>},     {"projection.4", kProjection<4>},   {"attention.6", kAttention<6>},
    {"projection.6", kProjection<6>},
};

}  // namespace

std::span<const GoldenCheck> golden_attention_checks() {
  return kChecks;
}

}  // namespace deepinfer
