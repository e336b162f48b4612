// Row-wise steps of the CPU paths beside the reference: the same bits where a step has no long sum, and where it has
// one and the sum is exact; else equal but for the order of the sum.
#include "backends/against_reference.h"
#include "ops/cached_records.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, AgainstReference, testing::ValuesIn(cpu_backends()), backend_name);

constexpr float kEps = 1e-20f;

std::vector<float> frequencies() {
  return rope_frequencies(64, 160000, {16, 32, 1, 65536});
}

// Whole numbers: the sum of their squares is exact in any order.
Matrix<bf16> whole_numbers(RandomData& random, int64_t rows, int64_t columns) {
  Matrix<bf16> x(rows, columns);
  for (bf16& value : x.values()) value = to_bf16(static_cast<float>(random.below(31) - 15));
  return x;
}

TEST_P(AgainstReference, EmbedTokens) {
  RandomData random(1);
  const Matrix<bf16> table = random.activations(97, 80);
  const std::vector<int32_t> ids{96, 0, 5, 5};
  for (const int copies : {1, 4}) {
    Matrix<bf16> got(4, copies * 80), want(4, copies * 80);
    Matrix<float> got_pre(4, copies, 9), want_pre(4, copies, 9);
    ops_->embed_tokens({table.view(), ids.data(), copies, got.view(), got_pre.view()});
    reference_->embed_tokens({table.view(), ids.data(), copies, want.view(), want_pre.view()});
    EXPECT_TRUE(same_bits<bf16>(got.values(), want.values()));
    EXPECT_TRUE(same_bits<float>(got_pre.values(), want_pre.values()));
  }
}

TEST_P(AgainstReference, RmsNorm) {
  RandomData random(2);
  for (const int64_t d : {1, 7, 16, 100, 128, 256, 512, 1280, 5120}) {
    const Matrix<bf16> weight = random.bf16s(1, d, 1, 0.2f);
    const Matrix<bf16> x = random.activations(23, d), whole = whole_numbers(random, 23, d);
    Matrix<bf16> got(23, d), want(23, d);
    ops_->rms_norm({x.view(), weight.row(0), kEps, got.view()});
    reference_->rms_norm({x.view(), weight.row(0), kEps, want.view()});
    EXPECT_TRUE(equal_but_for_order(got.values(), want.values())) << d;
    ops_->rms_norm({whole.view(), weight.row(0), kEps, got.view()});
    reference_->rms_norm({whole.view(), weight.row(0), kEps, want.view()});
    EXPECT_TRUE(same_bits<bf16>(got.values(), want.values())) << d;
  }
}

TEST_P(AgainstReference, Rope) {
  RandomData random(3);
  const std::vector<float> table = frequencies();
  const std::vector<int64_t> position{0, 1, 127, 65535, 65536, 1048575, 1048576, 999983};
  for (const auto& [heads, head_dim, pairs] : {std::array{64, 512, 32}, std::array{4, 128, 32}, std::array{3, 40, 5}}) {
    for (const bool inverse : {false, true}) {
      Matrix<bf16> got = hostile_activations(random, 8, int64_t{heads} * head_dim), want = got;
      ops_->rope({got.view(), position.data(), heads, head_dim, {table.data(), pairs}, inverse});
      reference_->rope({want.view(), position.data(), heads, head_dim, {table.data(), pairs}, inverse});
      EXPECT_TRUE(same_bits<bf16>(got.values(), want.values())) << heads << ' ' << inverse;
    }
  }
}

TEST_P(AgainstReference, QuantizeActivation) {
  RandomData random(4);
  for (const int64_t k : {32, 256, 5120, 32768}) {
    const Matrix<bf16> x = hostile_activations(random, 9, k);
    Matrix<bf16> got(9, k), want(9, k);
    ops_->quantize_activation({x.view(), got.view()});
    reference_->quantize_activation({x.view(), want.view()});
    EXPECT_TRUE(same_bits<bf16>(got.values(), want.values())) << k;
  }
}

TEST_P(AgainstReference, HyperConnectionElements) {
  RandomData random(5);
  for (const int64_t d : {64, 256, 5120, 100}) {
    const Matrix<bf16> streams = random.activations(19, 4 * d), y = random.activations(19, d);
    const Matrix<float> pre = random.floats(19, 4, 1), post = random.floats(19, 4, 1), comb = random.floats(19, 16, 1);
    Matrix<bf16> got(19, d), want(19, d);
    ops_->hyper_connection_collapse({streams.view(), pre.view(), nullptr, 0, got.view()});
    reference_->hyper_connection_collapse({streams.view(), pre.view(), nullptr, 0, want.view()});
    EXPECT_TRUE(same_bits<bf16>(got.values(), want.values())) << d;
    ops_->hyper_connection_mean({streams.view(), got.view()});
    reference_->hyper_connection_mean({streams.view(), want.view()});
    EXPECT_TRUE(same_bits<bf16>(got.values(), want.values())) << d;
    Matrix<bf16> got_streams = streams, want_streams = streams;
    ops_->hyper_connection_expand({y.view(), post.view(), comb.view(), got_streams.view()});
    reference_->hyper_connection_expand({y.view(), post.view(), comb.view(), want_streams.view()});
    EXPECT_TRUE(same_bits<bf16>(got_streams.values(), want_streams.values())) << d;
    const Matrix<bf16> norm = random.bf16s(1, d, 1, 0.2f);
    ops_->hyper_connection_collapse({streams.view(), pre.view(), norm.row(0), kEps, got.view()});
    reference_->hyper_connection_collapse({streams.view(), pre.view(), norm.row(0), kEps, want.view()});
    EXPECT_TRUE(equal_but_for_order(got.values(), want.values())) << d;
  }
}

TEST_P(AgainstReference, HyperConnectionMix) {
  RandomData random(6);
  for (const auto& [rows, d] : {std::pair<int64_t, int64_t>{1, 5120}, {6, 5120}, {53, 256}, {3, 36}}) {
    const Matrix<bf16> streams = random.activations(rows, 4 * d);
    const Matrix<float> fn = random.floats(24, 4 * d, 1 / std::sqrt(4.0f * static_cast<float>(d)));
    const Matrix<float> base = random.floats(1, 24, 1), scale = random.floats(1, 3, 1);
    Matrix<float> got[3] = {{rows, 4}, {rows, 4}, {rows, 16}}, want[3] = {{rows, 4}, {rows, 4}, {rows, 16}};
    const HyperConnectionWeights weights{fn.row(0), base.row(0), scale.row(0)};
    ops_->hyper_connection_mix({streams.view(), weights, got[0].view(), got[1].view(), got[2].view()});
    reference_->hyper_connection_mix({streams.view(), weights, want[0].view(), want[1].view(), want[2].view()});
    for (int part = 0; part < 3; ++part) {
      for (size_t i = 0; i < got[part].values().size(); ++i) {
        EXPECT_NEAR(got[part].values()[i], want[part].values()[i], 2e-5) << d << ' ' << part << ' ' << i;
      }
    }
  }
}

TEST_P(AgainstReference, EngramGatherOfEveryCode) {
  // Row s holds all 256 codes under scale s, once more in reverse; rows outside the table read as 0.
  Matrix<uint8_t> values(256, 256), scales(256, 8);
  for (int s = 0; s < 256; ++s) {
    for (int c = 0; c < 256; ++c) values.row(s)[c] = static_cast<uint8_t>(c);
    for (int g = 0; g < 8; ++g) scales.row(s)[g] = static_cast<uint8_t>(s);
  }
  std::vector<int64_t> row;
  for (int64_t i = 0; i < 258; ++i) row.push_back(i - 1);
  const EngramTable table{values.row(0), scales.row(0), 256, 256};
  Matrix<bf16> got(43, 6 * 256), want(43, 6 * 256);
  ops_->engram_gather({table, row.data(), 6, got.view()});
  reference_->engram_gather({table, row.data(), 6, want.view()});
  for (size_t i = 0; i < got.values().size(); ++i) {
    const bf16 g = got.values()[i], w = want.values()[i];
    const bool nan = std::isnan(to_float(w));  // the sign of a NaN is nobody's business
    ASSERT_TRUE(nan ? std::isnan(to_float(g)) : g == w) << i;
  }
}

TEST_P(AgainstReference, EngramMix) {
  RandomData random(7);
  for (const int64_t d : {64, 256, 5120}) {
    const Matrix<bf16> kv = random.activations(17, 5 * d);
    const Matrix<bf16> query = random.bf16s(4, d, 1, 0.2f), key = random.bf16s(4, d, 1, 0.2f);
    std::vector<uint8_t> dead(17, 0);
    dead[3] = 1;
    Matrix<bf16> got = random.activations(17, 4 * d), want = got;
    ops_->engram_mix({kv.view(), query.row(0), key.row(0), kEps, dead.data(), got.view()});
    reference_->engram_mix({kv.view(), query.row(0), key.row(0), kEps, dead.data(), want.view()});
    EXPECT_TRUE(equal_but_for_order(got.values(), want.values())) << d;
  }
}

TEST_P(AgainstReference, WindowRecords) {
  RandomData random(8);
  const std::vector<float> table = frequencies();
  std::vector<int64_t> position;
  for (int64_t i = 0; i < 41; ++i) position.push_back(i * 25013);
  const Matrix<bf16> kv = whole_numbers(random, 41, 512), norm = random.bf16s(1, 512, 0, 3);
  Matrix<uint8_t> got(41, fp8_record_bytes(512)), want(41, fp8_record_bytes(512));
  ops_->make_window_records({kv.view(), norm.row(0), kEps, position.data(), {table.data(), 32}, got.view()});
  reference_->make_window_records({kv.view(), norm.row(0), kEps, position.data(), {table.data(), 32}, want.view()});
  EXPECT_TRUE(same_bits<uint8_t>(got.values(), want.values()));

  RingRecords got_ring(134, fp8_record_bytes(512)), want_ring(134, fp8_record_bytes(512));
  const WindowCommit parts[2] = {{got_ring.ring(), 0, 30, 120}, {got_ring.ring(), 30, 11, 150}};
  ops_->commit_window({got.view(), parts, 2});
  const WindowCommit whole{want_ring.ring(), 0, 41, 120};
  reference_->commit_window({want.view(), &whole, 1});
  EXPECT_EQ(std::memcmp(got_ring.record(0), want_ring.record(0), 134 * fp8_record_bytes(512)), 0);
}

TEST_P(AgainstReference, CompressedRecords) {
  RandomData random(9);
  const std::vector<float> table = frequencies();
  for (const int ratio : {1, 2}) {
    const Matrix<bf16> latent = hostile_activations(random, 150, 512);
    BlockRecords got(400, main_kv_record_bytes(512)), want(400, main_kv_record_bytes(512));
    const auto store = [&](Ops& ops, BlockRecords& to) {
      const StoreSequence sequences[3] = {{0, 100, 7, to.list()}, {100, 0, 0, to.list()}, {100, 50, 300, to.list()}};
      ops.store_compressed({latent.view(), ratio, {table.data(), 32}, sequences, 3});
    };
    store(*ops_, got);
    store(*reference_, want);
    for (int64_t j = 0; j < 400; ++j) {
      ASSERT_EQ(std::memcmp(got.record(j), want.record(j), main_kv_record_bytes(512)), 0) << j;
    }
  }
}

TEST_P(AgainstReference, IndexRecords) {
  RandomData random(10);
  const std::vector<float> table = frequencies();
  const Matrix<bf16> key = whole_numbers(random, 60, 128), norm = random.bf16s(1, 128, 1, 1);
  BlockRecords got(60, index_record_bytes(128)), want(60, index_record_bytes(128));
  const auto store = [&](Ops& ops, BlockRecords& to) {
    const StoreSequence sequence{0, 60, 0, to.list()};
    ops.store_index_keys({key.view(), norm.row(0), kEps, 2, {table.data(), 32}, &sequence, 1});
  };
  store(*ops_, got);
  store(*reference_, want);
  for (int64_t j = 0; j < 60; ++j)
    ASSERT_EQ(std::memcmp(got.record(j), want.record(j), index_record_bytes(128)), 0) << j;

  std::vector<int64_t> position;
  for (int64_t i = 0; i < 29; ++i) position.push_back(i * 34567);
  const Matrix<bf16> q = hostile_activations(random, 29, 32 * 128);
  Matrix<uint8_t> got_queries(29, 32 * index_record_bytes(128)), want_queries(29, 32 * index_record_bytes(128));
  ops_->make_index_queries({q.view(), 32, 128, position.data(), {table.data(), 32}, got_queries.view()});
  reference_->make_index_queries({q.view(), 32, 128, position.data(), {table.data(), 32}, want_queries.view()});
  EXPECT_TRUE(same_bits<uint8_t>(got_queries.values(), want_queries.values()));
}

TEST_P(AgainstReference, CompressPairs) {
  RandomData random(11);
  const Matrix<bf16> norm = random.bf16s(1, 512, 1, 0.2f);
  const Matrix<float> value = random.floats(41, 512, 1), gate = random.floats(41, 512, 5);
  for (const int64_t slots : {2, 7, 200}) {
    RingRecords rings[2] = {{slots, 4096}, {slots, 4096}};
    Matrix<bf16> latents[2] = {{20, 512}, {20, 512}};
    for (int which = 0; which < 2; ++which) {
      Ops& ops = which == 0 ? *ops_ : *reference_;
      int64_t group = 0;
      for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 17}, {17, 4}, {21, 1}, {22, 19}}) {
        const CompressSequence sequence{first, rows, first, group, rings[which].ring()};
        ops.compress_pairs({value.view(), gate.view(), &sequence, 1, norm.row(0), kEps, latents[which].view()});
        group += (first + rows) / 2 - first / 2;
      }
    }
    EXPECT_TRUE(equal_but_for_order(latents[0].values(), latents[1].values()));
    EXPECT_EQ(std::memcmp(rings[0].record(0), rings[1].record(0), static_cast<size_t>(slots) * 4096), 0) << slots;
  }
}

TEST_P(AgainstReference, AddRows) {
  RandomData random(12);
  for (const int64_t n : {5, 4096, 129280}) {
    const Matrix<float> x = random.floats(3, n, 3);
    Matrix<float> got = random.floats(3, n, 2), want = got;
    ops_->add_rows({x.view(), got.view()});
    reference_->add_rows({x.view(), want.view()});
    EXPECT_TRUE(same_bits<float>(got.values(), want.values()));
  }
}

}  // namespace
}  // namespace deepinfer
