// Row invariance of the steps without matrix products and without cached state.
#include "ops/random_data.h"
#include "ops/row_invariance.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr float kEps = 1e-20f;

std::vector<int64_t> random_positions(RandomData& random, int64_t count) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < count; ++i) positions.push_back(random.below(1 << 20));
  return positions;
}

const std::vector<float>& frequencies() {
  static const std::vector<float> values = rope_frequencies(
      64, 160000, {.factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position_embeddings = 65536});
  return values;
}

RopeTable table() {
  return {frequencies().data(), 32};
}

}  // namespace

TEST_P(RowInvariance, EmbedTokens) {
  RandomData random(10);
  const Matrix<bf16> embedding = random.bf16s(50, 160, 0, 1);
  std::vector<int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(static_cast<int32_t>(random.below(50)));
  expect_rows_independent(40, 10, [&](std::span<const int64_t> picked) {
    const std::vector<int32_t> in = pick(ids, picked);
    Matrix<bf16> streams(static_cast<int64_t>(in.size()), 4 * 160);
    Matrix<float> pre(streams.rows(), 4);
    ops_->embed_tokens(
        {.table = embedding.view(), .ids = in.data(), .copies = 4, .streams = streams.view(), .pre = pre.view()});
    RowBytes out;
    append_rows(out, streams);
    append_rows(out, pre);
    return out;
  });
}

TEST_P(RowInvariance, RmsNorm) {
  for (const int64_t d : {128, 1280, 5120}) {
    RandomData random(11);
    const Matrix<bf16> x = random.activations(40, d);
    const Matrix<bf16> weight = random.bf16s(1, d, 1, 0.2f);
    expect_rows_independent(x.rows(), 11, [&](std::span<const int64_t> picked) {
      const Matrix<bf16> in = pick_rows(x, picked);
      Matrix<bf16> y(in.rows(), d);
      ops_->rms_norm({.x = in.view(), .weight = weight.row(0), .eps = kEps, .y = y.view()});
      RowBytes out;
      append_rows(out, y);
      return out;
    });
  }
}

TEST_P(RowInvariance, Rope) {
  for (const int heads : {1, 64}) {
    RandomData random(12);
    const int head_dim = heads == 1 ? 128 : 512;
    const Matrix<bf16> x = random.activations(12, int64_t{heads} * head_dim);
    const std::vector<int64_t> positions = random_positions(random, x.rows());
    expect_rows_independent(x.rows(), 12, [&](std::span<const int64_t> picked) {
      Matrix<bf16> y = pick_rows(x, picked);
      const std::vector<int64_t> position = pick(positions, picked);
      ops_->rope({.x = y.view(),
                  .position = position.data(),
                  .heads = heads,
                  .head_dim = head_dim,
                  .table = table(),
                  .inverse = heads == 64});
      RowBytes out;
      append_rows(out, y);
      return out;
    });
  }
}

TEST_P(RowInvariance, HyperConnections) {
  for (const int64_t d : {256, 5120}) {
    RandomData random(13);
    const Matrix<bf16> streams = random.activations(23, 4 * d);
    const Matrix<bf16> y = random.activations(23, d);
    const Matrix<bf16> norm = random.bf16s(1, d, 1, 0.2f);
    const Matrix<float> fn = random.floats(24, 4 * d, 0.01f);
    const Matrix<float> base = random.floats(1, 24, 1);
    const Matrix<float> scale = random.floats(1, 3, 0.5f);
    const HyperConnectionWeights weights{.fn = fn.row(0), .base = base.row(0), .scale = scale.row(0)};
    expect_rows_independent(streams.rows(), 13, [&](std::span<const int64_t> picked) {
      Matrix<bf16> x = pick_rows(streams, picked);
      const Matrix<bf16> add = pick_rows(y, picked);
      Matrix<float> pre(x.rows(), 4);
      Matrix<float> post(x.rows(), 4);
      Matrix<float> comb(x.rows(), 16);
      Matrix<bf16> collapsed(x.rows(), d);
      Matrix<bf16> mean(x.rows(), d);
      ops_->hyper_connection_mix(
          {.streams = x.view(), .weights = weights, .pre = pre.view(), .post = post.view(), .comb = comb.view()});
      ops_->hyper_connection_collapse(
          {.streams = x.view(), .pre = pre.view(), .norm = norm.row(0), .eps = kEps, .x = collapsed.view()});
      ops_->hyper_connection_mean({.streams = x.view(), .x = mean.view()});
      ops_->hyper_connection_expand({.y = add.view(), .post = post.view(), .comb = comb.view(), .streams = x.view()});
      RowBytes out;
      append_rows(out, pre);
      append_rows(out, post);
      append_rows(out, comb);
      append_rows(out, collapsed);
      append_rows(out, mean);
      append_rows(out, x);
      return out;
    });
  }
}

TEST_P(RowInvariance, Engram) {
  constexpr int64_t kD = 1280;
  constexpr int64_t kWidth = 256;
  constexpr int kLookups = 24;
  RandomData random(14);
  const OwnedWeight stored = random.weight(LinearWeight::Format::kFp8, 100, kWidth);
  std::vector<uint8_t> scales;
  for (int64_t i = 0; i < 100 * kWidth / 32; ++i) scales.push_back(static_cast<uint8_t>(120 + random.below(8)));
  const EngramTable engram{stored.data.data(), scales.data(), 100, kWidth};
  const Matrix<bf16> streams = random.activations(30, 4 * kD);
  const Matrix<bf16> kv = random.activations(30, 5 * kD);
  const Matrix<bf16> query_weight = random.bf16s(4, kD, 1, 0.1f);
  const Matrix<bf16> key_weight = random.bf16s(4, kD, 1, 0.1f);
  Matrix<int64_t> rows(30, kLookups);
  std::vector<uint8_t> dead;
  for (int64_t& row : rows.values()) row = random.below(104);  // some lie past the end
  for (int i = 0; i < 30; ++i) dead.push_back(random.below(5) == 0);
  expect_rows_independent(30, 14, [&](std::span<const int64_t> picked) {
    Matrix<bf16> x = pick_rows(streams, picked);
    const Matrix<int64_t> row = pick_rows(rows, picked);
    const Matrix<bf16> in = pick_rows(kv, picked);
    const std::vector<uint8_t> is_dead = pick(dead, picked);
    Matrix<bf16> e(x.rows(), kLookups * kWidth);
    ops_->engram_gather({.table = engram, .row = row.row(0), .lookups = kLookups, .e = e.view()});
    ops_->engram_mix({.kv = in.view(),
                      .query_weight = query_weight.row(0),
                      .key_weight = key_weight.row(0),
                      .eps = kEps,
                      .dead = is_dead.data(),
                      .streams = x.view()});
    RowBytes out;
    append_rows(out, e);
    append_rows(out, x);
    return out;
  });
}

TEST_P(RowInvariance, WindowRecordsAndIndexQueries) {
  constexpr int kIndexHeads = 32;
  RandomData random(15);
  const Matrix<bf16> kv = random.activations(20, 512);
  const Matrix<bf16> q = random.activations(20, kIndexHeads * 128);
  const Matrix<bf16> norm = random.bf16s(1, 512, 1, 0.2f);
  const std::vector<int64_t> positions = random_positions(random, kv.rows());
  expect_rows_independent(kv.rows(), 15, [&](std::span<const int64_t> picked) {
    const Matrix<bf16> in = pick_rows(kv, picked);
    const Matrix<bf16> queries = pick_rows(q, picked);
    const std::vector<int64_t> position = pick(positions, picked);
    Matrix<uint8_t> records(in.rows(), fp8_record_bytes(512));
    Matrix<uint8_t> query_records(in.rows(), kIndexHeads * index_record_bytes(128));
    ops_->make_window_records({.kv = in.view(),
                               .norm = norm.row(0),
                               .eps = kEps,
                               .position = position.data(),
                               .table = table(),
                               .records = records.view()});
    ops_->make_index_queries({.q = queries.view(),
                              .heads = kIndexHeads,
                              .head_dim = 128,
                              .position = position.data(),
                              .table = table(),
                              .records = query_records.view()});
    RowBytes out;
    append_rows(out, records);
    append_rows(out, query_records);
    return out;
  });
}

TEST_P(RowInvariance, AddRows) {
  RandomData random(16);
  const Matrix<float> x = random.floats(10, 333, 3);
  const Matrix<float> y = random.floats(10, 333, 3);
  expect_rows_independent(10, 16, [&](std::span<const int64_t> picked) {
    const Matrix<float> add = pick_rows(x, picked);
    Matrix<float> sum = pick_rows(y, picked);
    ops_->add_rows({.x = add.view(), .y = sum.view()});
    RowBytes out;
    append_rows(out, sum);
    return out;
  });
}

}  // namespace deepinfer
