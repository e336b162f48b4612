// The reference operations against the goldens, and the pieces of them that the Ops interface does not show.
#include <gtest/gtest.h>

#include <set>

#include "ops/cached_records.h"
#include "ops/golden_ops.h"
#include "ops/op_calls.h"
#include "ops/reference/index_topk.h"
#include "ops/reference/moe.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Reference, GoldenOps, golden_parameters({{"reference", make_reference_ops}}), golden_name);

TEST(GoldenOpsList, EveryEntryIsChecked) {
  std::set<std::string> checked{"engram_hash"};  // host work of the model, tests/models
  for (const GoldenCheck& check : golden_checks()) checked.insert(check.entry);
  const auto names = GoldenEntry::names_of_ops();
  EXPECT_EQ(checked, std::set<std::string>(names.begin(), names.end()));
}

TEST(ReferenceExpert, HiddenLayer) {
  const auto ops = make_reference_ops();
  const GoldenEntry golden = GoldenEntry::ops("expert");
  const ExpertWeights expert = ModelWeights::demonstration().expert("layers.5.ffn.experts.3");
  const Matrix<bf16> x = quantize(*ops, golden.in_rows<bf16>("x", kHidden));
  const Matrix<bf16> g = multiply(*ops, x.view(), expert.w1);
  const Matrix<bf16> u = multiply(*ops, x.view(), expert.w3);
  Matrix<bf16> h(x.rows(), expert.w1.n);
  for (int64_t m = 0; m < x.rows(); ++m) {
    reference::expert_hidden_row(g.row(m), u.row(m), h.columns(), 10, golden.in<float>("weight")[m], h.row(m));
  }
  golden.expect("h", h.values());
}

class ReferenceIndexer : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Layers, ReferenceIndexer, testing::Values(2, 4, 6));

TEST_P(ReferenceIndexer, Scores) {
  const auto ops = make_reference_ops();
  const GoldenEntry golden = GoldenEntry::ops("indexer." + std::to_string(GetParam()));
  const std::string prefix = "layers." + std::to_string(GetParam()) + ".attn.indexer";
  const ModelWeights& weights = ModelWeights::demonstration();
  const MatrixView<const bf16> key_values = golden.in_rows<bf16>("key", kIndexDim);
  BlockRecords keys(key_values.rows, index_record_bytes(kIndexDim));
  for (int64_t j = 0; j < key_values.rows; ++j) encode_index_row(key_values.row(j), kIndexDim, keys.record(j));
  const Matrix<bf16> q = quantized_linear(*ops, golden.in_rows<bf16>("qr", 128), weights.linear(prefix + ".wq_b"));
  Matrix<uint8_t> queries(q.rows(), kIndexHeads * index_record_bytes(kIndexDim));
  ops->make_index_queries({.q = q.view(),
                           .heads = kIndexHeads,
                           .head_dim = kIndexDim,
                           .position = golden.in<int64_t>("position").data(),
                           .table = compressed_rope(),
                           .records = queries.view()});
  const Matrix<bf16> head_weights =
      multiply(*ops, golden.in_rows<bf16>("x", kHidden), weights.plain(prefix + ".weights_proj.weight"));
  std::vector<float> scores;
  for (int64_t m = 0; m < q.rows(); ++m) {
    const auto row = reference::index_scores({queries.row(m), head_weights.row(m), kIndexHeads, kIndexDim}, keys.list(),
                                             key_values.rows);
    scores.insert(scores.end(), row.begin(), row.end());
  }
  golden.expect_equal<float>("score", scores);
}

}  // namespace
}  // namespace deepinfer
