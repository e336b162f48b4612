#include "ops/contract_suite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cached_records.h"
#include "ops/matrix.h"
#include "ops/random_data.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr float kEps = 1e-20f;
constexpr bf16 kMinusZero{0x8000};

// Index keys of one head with head_dim 32 whose score is the given small whole number: q = 1 in channel 0, k = the
// number. Numbers are e2m1 values times the scale of their own record: 0, 1, 2, 3, 4, 6.
struct ScoredRows {
  explicit ScoredRows(const std::vector<float>& scores)
      : keys(static_cast<int64_t>(scores.size()), index_record_bytes(32)) {
    for (size_t j = 0; j < scores.size(); ++j) {
      std::vector<bf16> key(32, bf16{0});
      key[0] = to_bf16(scores[j]);
      encode_index_row(key.data(), 32, keys.record(static_cast<int64_t>(j)));
    }
    std::vector<bf16> q(32, bf16{0});
    q[0] = to_bf16(1);
    query.resize(static_cast<size_t>(index_record_bytes(32)));
    encode_index_row(q.data(), 32, query.data());
  }

  BlockRecords keys;
  std::vector<uint8_t> query;
};

struct Selection {
  std::vector<int32_t> selected;
  std::vector<int32_t> candidates;
};

// The row at `position` over these keys, ratio 1, blocks of 8 rows.
Selection select(Ops& ops, ScoredRows& rows, int64_t position, int top_k, int64_t blocks, IndexTopk::Pool pool,
                 float weight = 1, std::vector<int32_t> candidates = {}) {
  const bf16 head_weight = to_bf16(weight);
  const IndexSequence sequence{.first_row = 0, .rows = 1, .position = position, .keys = rows.keys.list()};
  Selection made{std::vector<int32_t>(static_cast<size_t>(top_k), -7), std::move(candidates)};
  made.candidates.resize(static_cast<size_t>(blocks), -1);
  ops.index_topk({.queries = {rows.query.data(), 1, static_cast<int64_t>(rows.query.size())},
                  .weights = {&head_weight, 1, 1},
                  .heads = 1,
                  .head_dim = 32,
                  .ratio = 1,
                  .sequences = &sequence,
                  .sequence_count = 1,
                  .top_k = top_k,
                  .selected = {made.selected.data(), 1, top_k},
                  .pool = pool,
                  .candidate_block = 8,
                  .candidates = {made.candidates.data(), 1, blocks}});
  return made;
}

using Indices = std::vector<int32_t>;
using Pool = IndexTopk::Pool;

}  // namespace

TEST_P(OpsContract, SelectionKeepsTheLowerRowOfEquals) {
  ScoredRows rows({1, 3, 0, 3, 2, 3, 2, 0});
  EXPECT_EQ(select(*ops_, rows, 7, 3, 1, Pool::kNone).selected, (Indices{1, 3, 5}));
  EXPECT_EQ(select(*ops_, rows, 7, 4, 1, Pool::kNone).selected, (Indices{1, 3, 4, 5}));
  EXPECT_EQ(select(*ops_, rows, 6, 2, 1, Pool::kNone).selected, (Indices{1, 3}));
  EXPECT_EQ(select(*ops_, rows, 3, 6, 1, Pool::kNone).selected, (Indices{0, 1, 2, 3, -1, -1})) << "the visible rows";
  EXPECT_EQ(select(*ops_, rows, 7, 3, 1, Pool::kNone, 0).selected, (Indices{0, 1, 2})) << "all scores are 0";
  EXPECT_EQ(select(*ops_, rows, 7, 3, 1, Pool::kNone, -1).selected, (Indices{0, 2, 7}))
      << "0 is above -1 and equals -0";
}

TEST_P(OpsContract, SelectionOfManyEqualsKeepsTheLowestRows) {
  std::vector<float> scores(2000);
  for (size_t j = 0; j < scores.size(); ++j) scores[j] = j % 3 == 0 ? 2.0f : 1.0f;
  ScoredRows rows(scores);
  const auto got = select(*ops_, rows, 1999, 700, 1, Pool::kNone).selected;
  Indices want;
  for (int32_t j = 0; j < 2000; ++j) {
    if (j % 3 == 0) want.push_back(j);
  }
  for (int32_t j = 0; want.size() < 700; ++j) {
    if (j % 3 != 0) want.push_back(j);
  }
  std::sort(want.begin(), want.end());
  EXPECT_EQ(got, want);
}

TEST_P(OpsContract, SelectionWithoutVisibleRowsIsEmpty) {
  ScoredRows rows({1, 2});
  const bf16 weight = to_bf16(1);
  const IndexSequence sequence{.first_row = 0, .rows = 1, .position = 0, .keys = rows.keys.list()};
  Indices selected(2, 5);
  Indices candidates(2, 5);
  ops_->index_topk({.queries = {rows.query.data(), 1, static_cast<int64_t>(rows.query.size())},
                    .weights = {&weight, 1, 1},
                    .heads = 1,
                    .head_dim = 32,
                    .ratio = 2,  // position 0 completes no group
                    .sequences = &sequence,
                    .sequence_count = 1,
                    .top_k = 2,
                    .selected = {selected.data(), 1, 2},
                    .pool = Pool::kMake,
                    .candidate_block = 8,
                    .candidates = {candidates.data(), 1, 2}});
  EXPECT_EQ(selected, (Indices{-1, -1}));
  EXPECT_EQ(candidates, (Indices{-1, -1}));
}

TEST_P(OpsContract, CandidatePoolKeepsTheNewestBlockAndTheLowerOfEquals) {
  std::vector<float> scores(40, 0);  // blocks 0..4
  scores[3] = 2;
  scores[9] = 3;
  scores[17] = 2;
  scores[24] = 1;
  ScoredRows rows(scores);
  EXPECT_EQ(select(*ops_, rows, 39, 4, 1, Pool::kMake).candidates, (Indices{4}));
  EXPECT_EQ(select(*ops_, rows, 39, 4, 2, Pool::kMake).candidates, (Indices{1, 4}));
  EXPECT_EQ(select(*ops_, rows, 39, 4, 3, Pool::kMake).candidates, (Indices{0, 1, 4})) << "block 2 equals block 0";
  EXPECT_EQ(select(*ops_, rows, 39, 4, 7, Pool::kMake).candidates, (Indices{0, 1, 2, 3, 4, -1, -1}));
  EXPECT_EQ(select(*ops_, rows, 16, 4, 2, Pool::kMake).candidates, (Indices{1, 2})) << "row 17 is not visible yet";
  EXPECT_EQ(select(*ops_, rows, 39, 4, 1, Pool::kMake).selected, (Indices{3, 9, 17, 24}))
      << "the maker is not held to it";
  EXPECT_EQ(select(*ops_, rows, 39, 3, 3, Pool::kUse, 1, {2, 4}).selected, (Indices{16, 17, 18}));
  EXPECT_EQ(select(*ops_, rows, 33, 12, 3, Pool::kUse, 1, {2, 4}).selected,
            (Indices{16, 17, 18, 19, 20, 21, 22, 23, 32, 33, -1, -1}));
}

TEST_P(OpsContract, AttentionWithoutVisibleRowsIsZero) {
  constexpr int64_t kWidth = 512;
  RandomData random(31);
  const Matrix<bf16> q = random.bf16s(2, 4 * kWidth, 0, 1);
  Matrix<uint8_t> step(2, fp8_record_bytes(kWidth), 0xFF);  // decodes to NaN
  RingRecords ring(134, fp8_record_bytes(kWidth));
  const AttentionSequence sequence{.first_row = 0,
                                   .rows = 2,
                                   .position = 40,
                                   .ring = ring.ring(),
                                   .first_record = 0,
                                   .step_records = 2,
                                   .step_position = 40,
                                   .first_visible = 1000,
                                   .compressed = {}};
  const Matrix<float> sink(1, 4, -50.0f);
  Matrix<bf16> o(2, 4 * kWidth, to_bf16(9));
  ops_->sparse_attention({.q = q.view(),
                          .heads = 4,
                          .head_dim = static_cast<int>(kWidth),
                          .window_size = 128,
                          .step_records = step.view(),
                          .sequences = &sequence,
                          .sequence_count = 1,
                          .selected = {},
                          .sink = sink.row(0),
                          .o = o.view()});
  EXPECT_TRUE(std::all_of(o.values().begin(), o.values().end(), [](bf16 v) { return to_float(v) == 0; }));
}

TEST_P(OpsContract, AttentionNeverReadsRowsOutsideTheWindow) {
  constexpr int64_t kWidth = 512;
  RandomData random(32);
  const Matrix<bf16> rows = random.activations(200, kWidth);
  const Matrix<bf16> q = random.bf16s(1, 2 * kWidth, 0, 0.2f);
  const Matrix<float> sink = random.floats(1, 2, 1);
  // Row 150 sees 23..150; with first_visible 100 it sees 100..150.  Every other slot of the ring is poison.
  for (const int64_t first_visible : {0, 100}) {
    RingRecords ring(134, fp8_record_bytes(kWidth));
    for (int64_t p = std::max<int64_t>(23, first_visible); p < 150; ++p) {
      encode_fp8_row(rows.row(p), kWidth, ring.record(p));
    }
    Matrix<uint8_t> step(1, fp8_record_bytes(kWidth));
    encode_fp8_row(rows.row(150), kWidth, step.row(0));
    const AttentionSequence sequence{.first_row = 0,
                                     .rows = 1,
                                     .position = 150,
                                     .ring = ring.ring(),
                                     .first_record = 0,
                                     .step_records = 1,
                                     .step_position = 150,
                                     .first_visible = first_visible,
                                     .compressed = {}};
    Matrix<bf16> o(1, 2 * kWidth);
    ops_->sparse_attention({.q = q.view(),
                            .heads = 2,
                            .head_dim = static_cast<int>(kWidth),
                            .window_size = 128,
                            .step_records = step.view(),
                            .sequences = &sequence,
                            .sequence_count = 1,
                            .selected = {},
                            .sink = sink.row(0),
                            .o = o.view()});
    EXPECT_TRUE(std::all_of(o.values().begin(), o.values().end(), [](bf16 v) { return std::isfinite(to_float(v)); }));
  }
}

TEST_P(OpsContract, RoutingKeepsTheLowerExpertOfEqualsAndOutlivesNan) {
  const std::vector<bf16> gate(12 * 32, bf16{0});
  const std::vector<float> bias = {0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0};
  Matrix<bf16> x(3, 32, to_bf16(1));
  x.row(1)[5] = to_bf16(std::numeric_limits<float>::quiet_NaN());
  Matrix<int32_t> expert(3, 6, -1);
  Matrix<float> weight(3, 6);
  ops_->route({.x = x.view(),
               .gate = {LinearWeight::Format::kBf16, 12, 32, gate.data(), nullptr},
               .bias = bias.data(),
               .top_k = 6,
               .scaling = 1.5f,
               .expert = expert.view(),
               .weight = weight.view()});
  for (const int64_t m : {0, 2}) {
    const auto got = expert.row_values(m);
    EXPECT_EQ(Indices(got.begin(), got.end()), (Indices{1, 3, 4, 7, 0, 2}));
    for (const float w : weight.row_values(m)) EXPECT_NEAR(w, 0.25f, 1e-7);
  }
  std::vector<int32_t> broken(expert.row(1), expert.row(1) + 6);
  std::sort(broken.begin(), broken.end());
  EXPECT_TRUE(std::adjacent_find(broken.begin(), broken.end()) == broken.end() && broken.front() >= 0 &&
              broken.back() < 12)
      << "a broken row still names experts that exist, each once";
}

TEST_P(OpsContract, EngramRowsOutsideTheTableAreZeroAndDeadRowsAreUntouched) {
  RandomData random(33);
  const OwnedWeight stored = random.weight(LinearWeight::Format::kFp8, 4, 32);
  const std::vector<uint8_t> scales(4, 127);
  const std::vector<int64_t> row = {0, 3, 4, -1, std::numeric_limits<int64_t>::max(), 1};
  Matrix<bf16> e(3, 64, to_bf16(7));
  ops_->engram_gather(
      {.table = {stored.data.data(), scales.data(), 4, 32}, .row = row.data(), .lookups = 2, .e = e.view()});
  for (size_t i = 0; i < row.size(); ++i) {
    for (int64_t c = 0; c < 32; ++c) {
      const bf16 got = e.row(static_cast<int64_t>(i) / 2)[static_cast<int64_t>(i) % 2 * 32 + c];
      const bool inside = row[i] >= 0 && row[i] < 4;
      EXPECT_EQ(to_float(got), inside ? e4m3_to_float(stored.data[row[i] * 32 + c]) : 0.0f);
    }
  }

  Matrix<bf16> streams(2, 4 * 32, kMinusZero);
  const Matrix<bf16> kv(2, 5 * 32, to_bf16(1));
  const Matrix<bf16> ones(4, 32, to_bf16(1));
  const std::vector<uint8_t> dead = {1, 0};
  ops_->engram_mix({.kv = kv.view(),
                    .query_weight = ones.row(0),
                    .key_weight = ones.row(0),
                    .eps = kEps,
                    .dead = dead.data(),
                    .streams = streams.view()});
  EXPECT_EQ(streams.row(0)[9], kMinusZero);
  // dot is -0 there, so the gate is sigmoid(-sqrt(1e-6)).
  EXPECT_NEAR(to_float(streams.row(1)[9]), 1 / (1 + std::exp(1e-3)), 2e-3);
}

TEST_P(OpsContract, ZeroKeepsItsSign) {
  Matrix<bf16> x(1, 64, kMinusZero);
  x.row(0)[40] = to_bf16(1);
  x.row(0)[41] = to_bf16(-1e-9f);
  const Matrix<bf16> ones(1, 64, to_bf16(1));
  Matrix<bf16> y(1, 64);
  ops_->rms_norm({.x = x.view(), .weight = ones.row(0), .eps = kEps, .y = y.view()});
  EXPECT_EQ(y.row(0)[3], kMinusZero);
  ops_->quantize_activation({.x = x.view(), .y = y.view()});
  EXPECT_EQ(y.row(0)[3], kMinusZero);
  EXPECT_EQ(y.row(0)[41], kMinusZero) << "rounded to zero";
}

TEST_P(OpsContract, RotationIsGoodAtLargePositions) {
  RandomData random(34);
  const std::vector<float> frequencies = rope_frequencies(
      64, 160000, {.factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position_embeddings = 65536});
  constexpr int64_t kRows = 400;
  std::vector<int64_t> position;
  Matrix<bf16> x(kRows, 64);
  for (int64_t m = 0; m < kRows; ++m) {
    position.push_back(m < 4 ? (1 << 20) - 1 - m : random.below(1 << 20));
    for (int64_t i = 0; i < 64; i += 2) x.row(m)[i] = to_bf16(1);  // becomes (cos, sin)
  }
  ops_->rope(
      {.x = x.view(), .position = position.data(), .heads = 1, .head_dim = 64, .table = {frequencies.data(), 32}});
  int64_t unequal = 0;
  for (int64_t m = 0; m < kRows; ++m) {
    for (int i = 0; i < 32; ++i) {
      const double angle = static_cast<float>(position[m]) * frequencies[i];
      const bf16 want[2] = {to_bf16(static_cast<float>(std::cos(angle))), to_bf16(static_cast<float>(std::sin(angle)))};
      for (int part = 0; part < 2; ++part) {
        const bf16 got = x.row(m)[2 * i + part];
        if (got == want[part]) continue;
        ++unequal;  // an ulp of fp32 may decide a rounding to bf16
        EXPECT_LE(std::abs(got.bits - want[part].bits), 1) << "position " << position[m] << ", pair " << i;
      }
    }
  }
  EXPECT_LE(unequal, 5) << "of " << kRows * 64;
}

TEST_P(OpsContract, NoRowsIsAValidStep) {
  RandomData random(35);
  const OwnedWeight weight = random.weight(LinearWeight::Format::kFp8, 32, 64);
  const Matrix<bf16> norm(1, 64, to_bf16(1));
  const Matrix<float> floats(24, 256, 0.0f);
  const MatrixView<bf16> none(nullptr, 0, 64);
  const MatrixView<bf16> streams(nullptr, 0, 256);
  const MatrixView<float> four(nullptr, 0, 4);
  const MatrixView<float> sixteen(nullptr, 0, 16);
  ops_->embed_tokens({.table = norm.view(), .ids = nullptr, .copies = 4, .streams = streams, .pre = four});
  ops_->rms_norm({.x = none, .weight = norm.row(0), .eps = kEps, .y = none});
  ops_->quantize_activation({.x = none, .y = none});
  ops_->matmul({.x = none, .weight = weight.view(), .y = {nullptr, 0, 32}, .y32 = {}});
  ops_->grouped_matmul({.x = {nullptr, 0, 64}, .weight = weight.view(), .groups = 1, .y = {nullptr, 0, 32}});
  ops_->hyper_connection_mix({.streams = streams,
                              .weights = {.fn = floats.row(0), .base = floats.row(0), .scale = floats.row(0)},
                              .pre = four,
                              .post = four,
                              .comb = sixteen});
  ops_->hyper_connection_collapse({.streams = streams, .pre = four, .norm = norm.row(0), .eps = kEps, .x = none});
  ops_->hyper_connection_expand({.y = none, .post = four, .comb = sixteen, .streams = streams});
  ops_->hyper_connection_mean({.streams = streams, .x = none});
  const std::vector<ExpertWeights> experts(4);
  ops_->mixture_of_experts({.x = none,
                            .expert = {nullptr, 0, 2},
                            .weight = {nullptr, 0, 2},
                            .experts = experts.data(),
                            .expert_count = 4,
                            .shared = {},
                            .limit = 10,
                            .y = none});
  ops_->compress_pairs({.value = {nullptr, 0, 64},
                        .gate = {nullptr, 0, 64},
                        .sequences = nullptr,
                        .sequence_count = 0,
                        .norm = norm.row(0),
                        .eps = kEps,
                        .latent = none});
  ops_->sample({.logits = {nullptr, 0, 100}, .rows = {}, .result = {}, .top_logprobs = {}});
}

}  // namespace deepinfer
