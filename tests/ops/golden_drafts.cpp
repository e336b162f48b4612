// Golden checks of the DSpark draft: context rows, each stage, the head, and the whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cached_records.h"
#include "ops/golden_ops.h"
#include "ops/op_calls.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr int64_t kAnchor = 149;  // the last processed position of all entries
constexpr int64_t kBlock = 5;
constexpr int kStages = 3;
constexpr int kNoise = 3;  // id of the noise token
constexpr int64_t kRank = 64;

const ModelWeights& weights() {
  return ModelWeights::demonstration();
}
std::string stage_name(int stage) {
  return "mtp." + std::to_string(stage);
}

struct Streams {
  Matrix<bf16> x;     // [kBlock, 4 d]
  Matrix<float> pre;  // [kBlock, 4]
};

// Context records of a stage for the positions after `before`; taps [positions, 3 d].
Matrix<uint8_t> context_records(Ops& ops, int stage, MatrixView<const bf16> taps, int64_t first_position) {
  const Matrix<bf16> main_x = norm(ops, quantized_linear(ops, taps, weights().linear("mtp.0.main_proj")).view(),
                                   weights().vector("mtp.0.main_norm.weight"));
  const std::string attn = stage_name(stage) + ".attn";
  const Matrix<bf16> kv = quantized_linear(ops, main_x.view(), weights().linear(attn + ".wkv"));
  Matrix<uint8_t> records(taps.rows, fp8_record_bytes(kHeadDim));
  const auto position = positions_from(first_position, taps.rows);
  ops.make_window_records({.kv = kv.view(),
                           .norm = weights().vector(attn + ".kv_norm.weight"),
                           .eps = kEps,
                           .position = position.data(),
                           .table = plain_rope(),
                           .records = records.view()});
  return records;
}

// One draft stage over the block at kAnchor + 1; context: records of the last 128 positions.
void run_stage(Ops& ops, int stage, MatrixView<const uint8_t> context, Streams& streams) {
  const std::string prefix = stage_name(stage);
  const auto position = positions_from(kAnchor + 1, kBlock);
  RingRecords ring(kWindow + kBlock, context.columns);
  const WindowCommit commit{
      .ring = ring.ring(), .first_row = 0, .rows = context.rows, .position = kAnchor + 1 - context.rows};
  ops.commit_window({.records = context, .sequences = &commit, .sequence_count = 1});

  const Mixes attn_mixes = mix(ops, streams.x.view(), weights().hyper_connection(prefix + ".hc_attn"));
  const Matrix<bf16> x =
      collapse(ops, streams.x.view(), streams.pre.view(), weights().vector(prefix + ".attn_norm.weight"));
  Projection made = project(ops, prefix + ".attn", x.view(), position, plain_rope());
  const AttentionSequence sequence{.first_row = 0,
                                   .rows = kBlock,
                                   .position = kAnchor + 1,
                                   .ring = ring.ring(),
                                   .first_record = 0,
                                   .step_records = kBlock,
                                   .step_position = kAnchor + 1,
                                   .compressed = {}};
  Matrix<bf16> o(kBlock, kHeads * kHeadDim);
  ops.sparse_attention({.q = made.q.view(),
                        .heads = kHeads,
                        .head_dim = kHeadDim,
                        .window_size = kWindow,
                        .window = SparseAttention::Window::kDraftBlock,
                        .step_records = made.records.view(),
                        .sequences = &sequence,
                        .sequence_count = 1,
                        .selected = {},
                        .sink = weights().floats(prefix + ".attn.attn_sink"),
                        .o = o.view()});
  const Matrix<bf16> y = project_output(ops, prefix + ".attn", o, position, plain_rope());
  ops.hyper_connection_expand(
      {.y = y.view(), .post = attn_mixes.post.view(), .comb = attn_mixes.comb.view(), .streams = streams.x.view()});

  Mixes ffn_mixes = mix(ops, streams.x.view(), weights().hyper_connection(prefix + ".hc_ffn"));
  const Matrix<bf16> h =
      collapse(ops, streams.x.view(), attn_mixes.pre.view(), weights().vector(prefix + ".ffn_norm.weight"));
  const Matrix<bf16> z = feed_forward(ops, prefix + ".ffn", h.view(), 2);
  ops.hyper_connection_expand(
      {.y = z.view(), .post = ffn_mixes.post.view(), .comb = ffn_mixes.comb.view(), .streams = streams.x.view()});
  streams.pre = std::move(ffn_mixes.pre);
}

struct HeadOutputs {
  Matrix<float> base;
  Matrix<float> bias;
  Matrix<float> confidence;
};

// x: the collapsed stream of the last stage; tokens: the token before each draft.
HeadOutputs run_head(Ops& ops, MatrixView<const bf16> x, std::span<const int64_t> tokens) {
  const std::vector<int32_t> ids(tokens.begin(), tokens.end());
  Matrix<bf16> joined(x.rows, kHidden + kRank);
  for (int64_t m = 0; m < x.rows; ++m) std::copy_n(x.row(m), kHidden, joined.row(m));
  const MatrixView<bf16> e = joined.view().columns_from(kHidden, kRank);
  ops.embed_tokens({.table = weights().matrix("mtp.2.markov_head.embed.weight"),
                    .ids = ids.data(),
                    .copies = 1,
                    .streams = e,
                    .pre = {}});
  const Matrix<bf16> normed = norm(ops, x, weights().vector("mtp.2.norm.weight"));
  return {multiply32(ops, normed.view(), weights().plain("head.weight")),
          multiply32(ops, e, weights().plain("mtp.2.markov_head.head.weight")),
          multiply32(ops, joined.view(), weights().plain("mtp.2.confidence_head.proj.weight"))};
}

void context(Ops& ops, const GoldenEntry& golden) {
  const MatrixView<const bf16> taps = golden.in_rows<bf16>("taps", 3 * kHidden);
  for (int stage = 0; stage < kStages; ++stage) {
    const Matrix<uint8_t> records = context_records(ops, stage, taps, kAnchor + 1 - taps.rows);
    Matrix<bf16> values(taps.rows, kHeadDim);
    for (int64_t m = 0; m < taps.rows; ++m) decode_fp8_row(records.row(m), kHeadDim, values.row(m));
    golden.expect("stage" + std::to_string(stage), values.values());
  }
}

void stage(Ops& ops, const GoldenEntry& golden, int number) {
  const MatrixView<const bf16> values = golden.in_rows<bf16>("context", kHeadDim);
  Matrix<uint8_t> records(values.rows, fp8_record_bytes(kHeadDim));
  for (int64_t m = 0; m < values.rows; ++m) encode_fp8_row(values.row(m), kHeadDim, records.row(m));
  Streams streams{Matrix<bf16>(golden.in<bf16>("X"), kHyperCopies * kHidden),
                  Matrix<float>(golden.in<float>("pre"), kHyperCopies)};
  run_stage(ops, number, records.view(), streams);
  golden.expect_layer("X", streams.x.values());
  golden.expect_layer("pre", streams.pre.values());
}

void head(Ops& ops, const GoldenEntry& golden) {
  const HeadOutputs made = run_head(ops, golden.in_rows<bf16>("x", kHidden), golden.in<int64_t>("token"));
  golden.expect("base", made.base.values());
  golden.expect("bias", made.bias.values());
  golden.expect("confidence", made.confidence.values());
}

void whole(Ops& ops, const GoldenEntry& golden) {
  const MatrixView<const bf16> taps = golden.in_rows<bf16>("taps", 3 * kHidden);
  const auto tokens = golden.in<int64_t>("tokens");
  std::vector<int32_t> ids(kBlock, kNoise);
  ids[0] = static_cast<int32_t>(tokens[0]);
  Streams streams{Matrix<bf16>(kBlock, kHyperCopies * kHidden), Matrix<float>(kBlock, kHyperCopies)};
  ops.embed_tokens({.table = weights().matrix("embed.weight"),
                    .ids = ids.data(),
                    .copies = kHyperCopies,
                    .streams = streams.x.view(),
                    .pre = streams.pre.view()});
  for (int number = 0; number < kStages; ++number) {
    // All 150 positions: the ring keeps what it has room for, attention looks at the last 128.
    run_stage(ops, number, context_records(ops, number, taps, 0).view(), streams);
  }
  const Matrix<bf16> x = collapse(ops, streams.x.view(), streams.pre.view(), nullptr);
  HeadOutputs made = run_head(ops, x.view(), tokens);
  ops.add_rows({.x = made.bias.view(), .y = made.base.view()});
  golden.expect("logits", made.base.values());
  golden.expect("confidence", made.confidence.values());
}

constexpr GoldenCheck kChecks[] = {
    {"dspark", whole},
    {"dspark_context", context},
    {"dspark_stage.0", [](Ops& ops, const GoldenEntry& golden) { stage(ops, golden, 0); }},
    {"dspark_stage.1", [](Ops& ops, const GoldenEntry& golden) { stage(ops, golden, 1); }},
    {"dspark_stage.2", [](Ops& ops, const GoldenEntry& golden) { stage(ops, golden, 2); }},
    {"dspark_head", head},
};

}  // namespace

std::span<const GoldenCheck> golden_draft_checks() {
  return kChecks;
}

}  // namespace deepinfer
