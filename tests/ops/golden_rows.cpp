// Golden checks of the steps that look at one row only.
#include <gtest/gtest.h>

#include "ops/golden_ops.h"
#include "ops/op_calls.h"

namespace deepinfer {
namespace {

const ModelWeights& weights() {
  return ModelWeights::demonstration();
}

void embed(Ops& ops, const GoldenEntry& golden) {
  const auto ids64 = golden.in<int64_t>("ids");
  const std::vector<int32_t> ids(ids64.begin(), ids64.end());
  const auto rows = static_cast<int64_t>(ids.size());
  Matrix<bf16> streams(rows, kHyperCopies * kHidden);
  Matrix<float> pre(rows, kHyperCopies, -1.0f);
  ops.embed_tokens({.table = weights().matrix("embed.weight"),
                    .ids = ids.data(),
                    .copies = kHyperCopies,
                    .streams = streams.view(),
                    .pre = pre.view()});
  for (int copy = 0; copy < kHyperCopies; ++copy) {
    std::vector<bf16> x;
    for (int64_t m = 0; m < rows; ++m) {
      x.insert(x.end(), streams.row(m) + copy * kHidden, streams.row(m) + (copy + 1) * kHidden);
      EXPECT_EQ(pre.row(m)[copy], copy == 0 ? 1.0f : 0.0f);
    }
    golden.expect_equal<bf16>("x", x);
  }
  Matrix<bf16> plain(rows, kHidden);
  ops.embed_tokens(
      {.table = weights().matrix("embed.weight"), .ids = ids.data(), .copies = 1, .streams = plain.view(), .pre = {}});
  golden.expect_equal<bf16>("x", plain.values());
}

void rms_norm(Ops& ops, const GoldenEntry& golden) {
  const bf16* weight = weights().vector("layers.1.attn_norm.weight");
  Matrix<bf16> x = Matrix<bf16>(golden.in<bf16>("x"), kHidden);
  golden.expect("y", norm(ops, x.view(), weight).values());
  ops.rms_norm({.x = x.view(), .weight = weight, .eps = kEps, .y = x.view()});  // in place
  golden.expect("y", x.values());
}

void rope(Ops& ops, const GoldenEntry& golden, RopeTable table) {
  golden.expect_equal<float>("frequency", {table.frequencies, static_cast<size_t>(table.pairs)});
  for (const bool inverse : {false, true}) {
    Matrix<bf16> x(golden.in<bf16>("x"), 2 * 128);
    ops.rope({.x = x.view(),
              .position = golden.in<int64_t>("position").data(),
              .heads = 2,
              .head_dim = 128,
              .table = table,
              .inverse = inverse});
    golden.expect(inverse ? "z" : "y", x.values());
  }
}

void hyper_connection(Ops& ops, const GoldenEntry& golden, const std::string& site) {
  Matrix<bf16> streams(golden.in<bf16>("X"), kHyperCopies * kHidden);
  golden.expect("x", collapse(ops, streams.view(), golden.in_rows<float>("pre", kHyperCopies), nullptr).values());
  const Mixes mixes = mix(ops, streams.view(), weights().hyper_connection("layers.3.hc_" + site));
  golden.expect("pre", mixes.pre.values());
  golden.expect("post", mixes.post.values());
  golden.expect("comb", mixes.comb.values());
  ops.hyper_connection_expand({.y = golden.in_rows<bf16>("y", kHidden),
                               .post = mixes.post.view(),
                               .comb = mixes.comb.view(),
                               .streams = streams.view()});
  golden.expect("X", streams.values());
}

void engram(Ops& ops, const GoldenEntry& golden, const std::string& layer) {
  const std::string prefix = "layers." + layer + ".engram";
  Matrix<bf16> streams(golden.in<bf16>("X"), kHyperCopies * kHidden);
  const EngramTable table = weights().engram_table(prefix + ".embed");
  const int lookups = static_cast<int>(golden.in<int64_t>("rows").size()) / static_cast<int>(streams.rows());
  Matrix<bf16> e(streams.rows(), lookups * table.width);
  ops.engram_gather({.table = table, .row = golden.in<int64_t>("rows").data(), .lookups = lookups, .e = e.view()});
  const Matrix<bf16> kv = multiply(ops, e.view(), weights().linear(prefix + ".wkv"));
  ops.engram_mix({.kv = kv.view(),
                  .query_weight = weights().vector(prefix + ".q_weight"),
                  .key_weight = weights().vector(prefix + ".k_weight"),
                  .eps = kEps,
                  .dead = golden.in<uint8_t>("dead").data(),
                  .streams = streams.view()});
  golden.expect("X", streams.values());
}

void head(Ops& ops, const GoldenEntry& golden) {
  const Matrix<bf16> x = norm(ops, golden.in_rows<bf16>("x", kHidden), weights().vector("norm.weight"));
  golden.expect("logits", multiply32(ops, x.view(), weights().plain("head.weight")).values());
}

constexpr GoldenCheck kChecks[] = {
    {"embed", embed},
    {"rms_norm", rms_norm},
    {"rope.plain", [](Ops& ops, const GoldenEntry& golden) { rope(ops, golden, plain_rope()); }},
    {"rope.yarn", [](Ops& ops, const GoldenEntry& golden) { rope(ops, golden, compressed_rope()); }},
    {"hyper_connection.attn", [](Ops& ops, const GoldenEntry& golden) { hyper_connection(ops, golden, "attn"); }},
    {"hyper_connection.ffn", [](Ops& ops, const GoldenEntry& golden) { hyper_connection(ops, golden, "ffn"); }},
    {"engram.1", [](Ops& ops, const GoldenEntry& golden) { engram(ops, golden, "1"); }},
    {"engram.3", [](Ops& ops, const GoldenEntry& golden) { engram(ops, golden, "3"); }},
    {"head", head},
};

}  // namespace

std::span<const GoldenCheck> golden_row_checks() {
  return kChecks;
}

}  // namespace deepinfer
