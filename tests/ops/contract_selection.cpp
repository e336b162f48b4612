// Contracts of the indexer: ties, visibility, candidate pool.
#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/cached_records.h"
#include "ops/contract_suite.h"
#include "ops/random_data.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr int kIndexDim = 128;

// Index keys of one head with head_dim 128 whose score is the given small whole number: q = 1 in channel 0, k = the
// number. Numbers are e2m1 values times the scale of their own record: 0, 1, 2, 3, 4, 6.
struct ScoredRows {
  explicit ScoredRows(const std::vector<float>& scores)
      : keys(static_cast<int64_t>(scores.size()), index_record_bytes(kIndexDim)) {
    for (size_t j = 0; j < scores.size(); ++j) {
      std::vector<bf16> key(kIndexDim, bf16{0});
      key[0] = to_bf16(scores[j]);
      encode_index_row(key.data(), kIndexDim, keys.record(static_cast<int64_t>(j)));
    }
    std::vector<bf16> q(kIndexDim, bf16{0});
    q[0] = to_bf16(1);
    query.resize(static_cast<size_t>(index_record_bytes(kIndexDim)));
    encode_index_row(q.data(), kIndexDim, query.data());
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
                  .head_dim = kIndexDim,
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
                    .head_dim = kIndexDim,
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

// Few distinct scores, so that every cut falls among thousands of equals that lie in all parts of the context.
TEST_P(OpsContract, SelectionOverALongContextIsThatOfASort) {
  constexpr int64_t kVisible = (int64_t{1} << 17) + 13, kRows = kVisible + 4;
  constexpr int32_t kBlockRows = 8, kNewest = static_cast<int32_t>((kVisible - 1) / kBlockRows);
  constexpr int kTopK = 512, kPool = 2048;
  RandomData random(7);
  std::vector<float> scores(static_cast<size_t>(kRows));
  for (float& score : scores) {
    const int64_t of = random.below(4096);
    score = of < 4 ? 6.0f : of < 10 ? 4.0f : of < 1000 ? 3.0f : static_cast<float>(of % 3);
  }
  for (size_t hidden = kVisible; hidden < scores.size(); ++hidden) scores[hidden] = 6;
  ScoredRows rows(scores);
  // The `most` best of `indices` by score, in ascending order.
  const auto best = [](Indices indices, const auto& score_of, size_t most) {
    std::stable_sort(indices.begin(), indices.end(), [&](int32_t a, int32_t b) { return score_of(a) > score_of(b); });
    indices.resize(std::min(indices.size(), most));
    std::sort(indices.begin(), indices.end());
    return indices;
  };
  const auto score_of_row = [&](int32_t row) { return scores[static_cast<size_t>(row)]; };
  const auto score_of_block = [&](int32_t block) {
    if (block == kNewest) return 100.0f;
    const auto first = scores.begin() + block * kBlockRows;
    return *std::max_element(first, first + kBlockRows);
  };
  Indices all(static_cast<size_t>(kVisible)), blocks(kNewest + 1);
  std::iota(all.begin(), all.end(), 0);
  std::iota(blocks.begin(), blocks.end(), 0);
  const Indices pool = best(blocks, score_of_block, kPool);
  Indices of_pool;
  for (const int32_t block : pool)
    for (int32_t row = block * kBlockRows; row < std::min<int64_t>((block + 1) * kBlockRows, kVisible); ++row)
      of_pool.push_back(row);

  EXPECT_EQ(select(*ops_, rows, kVisible - 1, kTopK, 1, Pool::kNone).selected, best(all, score_of_row, kTopK));
  const Selection made = select(*ops_, rows, kVisible - 1, kTopK, kPool, Pool::kMake);
  EXPECT_EQ(made.selected, best(all, score_of_row, kTopK));
  EXPECT_EQ(made.candidates, pool);
  EXPECT_EQ(select(*ops_, rows, kVisible - 1, kTopK, kPool, Pool::kUse, 1, pool).selected,
            best(of_pool, score_of_row, kTopK));
}

}  // namespace deepinfer
