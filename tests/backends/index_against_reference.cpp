// Selection by the indexer on the CPU paths: equal to the reference, whatever the number of rows and the history.
#include "backends/against_reference.h"
#include "ops/cached_records.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

using Pool = IndexTopk::Pool;

struct Case {
  int heads;
  int64_t rows;
  int64_t history;  // positions before the last row's
  int ratio;
  int top_k;
  int64_t blocks = 0;  // of the pool; 0: no pool
  int block_rows = 8;
  bool hostile = false;
};

struct Inputs {
  Inputs(RandomData& random, const Case& c)
      : keys((c.history + c.rows) / c.ratio + 1, index_record_bytes(128), 64),
        queries(c.rows, c.heads * index_record_bytes(128)),
        weights(random.bf16s(c.rows, c.heads, 0.1f, 1)) {
    const int64_t count = (c.history + c.rows) / c.ratio + 1;
    const Matrix<bf16> key_values = random.activations(count, 128);
    for (int64_t j = 0; j < count; ++j) {
      encode_index_row(key_values.row(j), 128, keys.record(j));
      if (j % 3 == 2) std::memcpy(keys.record(j), keys.record(j - 1), index_record_bytes(128));  // equal scores
      if (c.hostile && j % 5 == 0) {
        for (int64_t i = 0; i < 68; ++i) keys.record(j)[i] = static_cast<uint8_t>(random.word());
      }
    }
    const Matrix<bf16> query_values = random.activations(c.rows, c.heads * 128);
    for (int64_t m = 0; m < c.rows; ++m) {
      for (int64_t h = 0; h < c.heads; ++h) {
        uint8_t* record = queries.row(m) + h * index_record_bytes(128);
        encode_index_row(query_values.row(m) + h * 128, 128, record);
        if (c.hostile && h % 3 == 0) record[64 + random.below(4)] = static_cast<uint8_t>(random.word());
      }
      if (c.hostile && m % 2 == 0) weights.row(m)[0] = {static_cast<uint16_t>(random.word())};
    }
  }
  BlockRecords keys;
  Matrix<uint8_t> queries;
  Matrix<bf16> weights;
};

void run(Ops& ops, const Inputs& in, const Case& c, Pool pool, Matrix<int32_t>& selected, Matrix<int32_t>& candidates) {
  // Two sequences over the same keys: the second begins in the middle.
  const int64_t first = c.rows / 2;
  const IndexSequence sequences[2] = {{0, first, c.history, in.keys.list()},
                                      {first, c.rows - first, c.history + first, in.keys.list()}};
  ops.index_topk({.queries = in.queries.view(),
                  .weights = in.weights.view(),
                  .heads = c.heads,
                  .head_dim = 128,
                  .ratio = c.ratio,
                  .sequences = sequences,
                  .sequence_count = 2,
                  .top_k = c.top_k,
                  .selected = selected.view(),
                  .pool = pool,
                  .candidate_block = c.block_rows,
                  .candidates = c.blocks > 0 ? candidates.view() : MatrixView<int32_t>()});
}

TEST_P(AgainstReference, IndexTopk) {
  RandomData random(30);
  for (const Case& c : {Case{8, 40, 0, 1, 128, 64}, Case{8, 21, 600, 2, 128}, Case{32, 2, 3000, 1, 512, 100},
                        Case{32, 1, 4500, 2, 512}, Case{32, 7, 2999, 1, 64, 7, 16}, Case{5, 3, 1200, 1, 33, 8, 8, true},
                        Case{8, 1, 0, 2, 16, 4}, Case{3, 30, 1000, 1, 128, 16, 8, true}}) {
    const Inputs in(random, c);
    Matrix<int32_t> got(c.rows, c.top_k, -9), want(c.rows, c.top_k, -8);
    Matrix<int32_t> got_blocks(c.rows, c.blocks, -9), want_blocks(c.rows, c.blocks, -8);
    const Pool make = c.blocks > 0 ? Pool::kMake : Pool::kNone;
    run(*ops_, in, c, make, got, got_blocks);
    run(*reference_, in, c, make, want, want_blocks);
    EXPECT_TRUE(same_bits<int32_t>(got.values(), want.values())) << c.history;
    EXPECT_TRUE(same_bits<int32_t>(got_blocks.values(), want_blocks.values())) << c.history;
    if (c.blocks == 0) continue;
    const Inputs later(random, c);  // another layer's queries over the same pool
    run(*ops_, later, c, Pool::kUse, got, want_blocks);
    run(*reference_, later, c, Pool::kUse, want, want_blocks);
    EXPECT_TRUE(same_bits<int32_t>(got.values(), want.values())) << c.history;
  }
}

}  // namespace
}  // namespace deepinfer
