// Contracts of steps that end with another step: the same bits as one after the other.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cached_records.h"
#include "ops/contract_suite.h"
#include "ops/matrix.h"
#include "ops/random_data.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr float kEps = 1e-6f;
constexpr bf16 kPoison{0x7fc1};

bool same(const Matrix<bf16>& a, const Matrix<bf16>& b) {
  return a.values().size() == b.values().size() &&
         std::memcmp(a.values().data(), b.values().data(), a.values().size_bytes()) == 0;
}

Matrix<bf16> rounded(Ops& ops, const Matrix<bf16>& x) {
  Matrix<bf16> y(x.rows(), x.columns(), kPoison);
  ops.quantize_activation({x.view(), y.view()});
  return y;
}

}  // namespace

TEST_P(OpsContract, NormThenRounding) {
  RandomData random(40);
  for (const int64_t d : {32, 96, 1280, 5120}) {
    const Matrix<bf16> x = random.activations(5, d), weight = random.bf16s(1, d, 1, 0.2f);
    Matrix<bf16> plain(5, d, kPoison), both(5, d, kPoison);
    ops_->rms_norm({x.view(), weight.row(0), kEps, plain.view(), false});
    ops_->rms_norm({x.view(), weight.row(0), kEps, both.view(), true});
    EXPECT_TRUE(same(both, rounded(*ops_, plain))) << d;
    both = x;
    ops_->rms_norm({both.view(), weight.row(0), kEps, both.view(), true});
    EXPECT_TRUE(same(both, rounded(*ops_, plain))) << "in place, " << d;
  }
}

TEST_P(OpsContract, GroupedProductThenRounding) {
  RandomData random(41);
  const OwnedWeight weight = random.weight(LinearWeight::Format::kFp8, 128, 64);
  for (const int64_t rows : {1, 3, 40}) {
    const Matrix<bf16> x = rounded(*ops_, random.activations(rows, 2 * 64));
    Matrix<bf16> plain(rows, 128, kPoison), both(rows, 128, kPoison);
    ops_->grouped_matmul({x.view(), weight.view(), 2, plain.view(), false});
    ops_->grouped_matmul({x.view(), weight.view(), 2, both.view(), true});
    EXPECT_TRUE(same(both, rounded(*ops_, plain))) << rows;
  }
}

TEST_P(OpsContract, SublayerInputsFollowFromTheStreams) {
  for (const int64_t d : {32, 160, 2080, 5120}) {
    for (const int64_t rows : {1, 2, 9}) {
      RandomData random(42);
      const Matrix<bf16> before = random.activations(rows, 4 * d), y = random.activations(rows, d);
      const Matrix<bf16> norm = random.bf16s(1, d, 1, 0.2f);
      const Matrix<float> post = random.floats(rows, 4, 1), comb = random.floats(rows, 16, 0.5f),
                          pre = random.floats(rows, 4, 1);
      for (const bf16* weight : {norm.row(0), static_cast<const bf16*>(nullptr)}) {
        Matrix<bf16> streams = before, x(rows, d, kPoison);
        ops_->hyper_connection_expand({y.view(), post.view(), comb.view(), streams.view()});
        ops_->hyper_connection_collapse({streams.view(), pre.view(), weight, kEps, x.view()});

        Matrix<bf16> collapsed(rows, d, kPoison), quantized(rows, d, kPoison);
        ops_->hyper_connection_collapse({streams.view(), pre.view(), weight, kEps, collapsed.view(), quantized.view()});
        EXPECT_TRUE(same(collapsed, x)) << d << ", " << rows << " rows";
        EXPECT_TRUE(same(quantized, rounded(*ops_, x))) << d << ", " << rows << " rows";

        Matrix<bf16> now = before, next(rows, d, kPoison), next_quantized(rows, d, kPoison);
        ops_->hyper_connection_expand({y.view(),
                                       post.view(),
                                       comb.view(),
                                       now.view(),
                                       {now.view(), pre.view(), weight, kEps, next.view(), next_quantized.view()}});
        EXPECT_TRUE(same(now, streams)) << d << ", " << rows << " rows";
        EXPECT_TRUE(same(next, x)) << d << ", " << rows << " rows";
        EXPECT_TRUE(same(next_quantized, rounded(*ops_, x))) << d << ", " << rows << " rows";

        now = before;
        Matrix<bf16> alone(rows, d, kPoison);
        ops_->hyper_connection_expand(
            {y.view(), post.view(), comb.view(), now.view(), {now.view(), pre.view(), weight, kEps, alone.view(), {}}});
        EXPECT_TRUE(same(alone, x)) << "not rounded, " << d << ", " << rows << " rows";
      }
    }
  }
}

TEST_P(OpsContract, AttentionBetweenRotations) {
  constexpr int64_t kWidth = 512;
  constexpr int kHeads = 4;
  const std::vector<float> frequencies = rope_frequencies(64, 10000, {});
  const RopeTable table{frequencies.data(), 32};
  RandomData random(43);
  // Two sequences: three rows of a prompt, and one row behind a ring.
  const Matrix<bf16> queries = random.bf16s(4, kHeads * kWidth, 0, 0.3f), keys = random.activations(4, kWidth),
                     older = random.activations(128, kWidth);
  const std::vector<int64_t> position = {0, 1, 2, 1000};
  RingRecords empty(134, fp8_record_bytes(kWidth)), ring(134, fp8_record_bytes(kWidth));
  Matrix<uint8_t> step(4, fp8_record_bytes(kWidth));
  for (int64_t i = 0; i < 4; ++i) encode_fp8_row(keys.row(i), kWidth, step.row(i));
  for (int64_t i = 0; i < 128; ++i) encode_fp8_row(older.row(i), kWidth, ring.record(872 + i));
  AttentionSequence prompt, decoded;
  prompt.rows = prompt.step_records = 3;
  prompt.ring = empty.ring();
  decoded.first_row = decoded.first_record = 3;
  decoded.rows = decoded.step_records = 1;
  decoded.position = decoded.step_position = 1000;
  decoded.ring = ring.ring();
  const std::vector<AttentionSequence> sequences = {prompt, decoded};
  const Matrix<float> sink = random.floats(1, kHeads, 1);

  Matrix<bf16> q = queries, o(4, kHeads * kWidth, kPoison);
  SparseAttention op{.q = q.view(),
                     .heads = kHeads,
                     .head_dim = static_cast<int>(kWidth),
                     .window_size = 128,
                     .step_records = step.view(),
                     .sequences = sequences.data(),
                     .sequence_count = 2,
                     .selected = {},
                     .sink = sink.row(0),
                     .o = o.view()};
  ops_->rope({.x = q.view(),
              .position = position.data(),
              .heads = kHeads,
              .head_dim = static_cast<int>(kWidth),
              .table = table});
  ops_->sparse_attention(op);
  ops_->rope({.x = o.view(),
              .position = position.data(),
              .heads = kHeads,
              .head_dim = static_cast<int>(kWidth),
              .table = table,
              .inverse = true});
  const Matrix<bf16> want = rounded(*ops_, o);

  q = queries;
  Matrix<bf16> got(4, kHeads * kWidth, kPoison);
  op.q = q.view();
  op.o = got.view();
  op.table = table;
  op.position = position.data();
  ops_->sparse_attention(op);
  EXPECT_TRUE(same(got, want));
}

}  // namespace deepinfer
