// Operations of one row at the released widths, whose work threads share by ranges: the bits of one thread on any
// number of threads, more than the machine has cores among them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backends/cpu_backends.h"
#include "ops/cached_records.h"
#include "ops/random_data.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

using Format = LinearWeight::Format;
constexpr int64_t kHidden = 5120, kHeadDim = 512, kIndexDim = 128, kVocabulary = 50000;
constexpr int kHeads = 64, kIndexHeads = 32, kTopK = 512, kExperts = 8;

class CpuThreads : public testing::TestWithParam<CpuIsa> {
 protected:
  // run(ops, out) fills a matrix of this shape.
  template <typename T, typename Run>
  void expect_same_bits(int64_t rows, int64_t columns, Run run) {
    Matrix<T> alone;
    for (int threads : {1, 3, 16}) {
      auto ops = make_cpu_path(GetParam(), threads);
      ASSERT_TRUE(ops->prepare({.rows = 8,
                                .max_k = 8192,
                                .max_n = 8192,
                                .heads = kHeads,
                                .head_dim = kHeadDim,
                                .window_size = 128,
                                .top_k = kTopK,
                                .index_heads = kIndexHeads,
                                .candidate_blocks = 64,
                                .max_position = 8192,
                                .experts = kExperts,
                                .experts_per_token = 3,
                                .expert_width = 608,
                                .hidden = kHidden,
                                .vocabulary = kVocabulary})
                      .ok());
      Matrix<T> out(rows, columns);
      run(*ops, out);
      if (threads == 1) {
        alone = out;
      } else {
        EXPECT_EQ(std::memcmp(alone.row(0), out.row(0), sizeof(T) * static_cast<size_t>(rows * columns)), 0)
            << threads << " threads";
      }
    }
  }
};

TEST_P(CpuThreads, SparseAttention) {
  RandomData random(1);
  BlockRecords compressed(700, main_kv_record_bytes(kHeadDim));
  RingRecords ring(134, fp8_record_bytes(kHeadDim));
  const Matrix<bf16> keys = random.activations(700, kHeadDim);
  Matrix<uint8_t> step(3, fp8_record_bytes(kHeadDim));
  for (int64_t j = 0; j < 700; ++j) encode_main_kv_row(keys.row(j), kHeadDim, compressed.record(j));
  for (int64_t p = 870; p < 1000; ++p) encode_fp8_row(keys.row(p - 870), kHeadDim, ring.record(p));
  for (int64_t i = 0; i < 3; ++i) encode_fp8_row(keys.row(200 + i), kHeadDim, step.row(i));
  for (int64_t rows : {1, 3}) {
    for (int64_t count : {int64_t{0}, int64_t{333}, int64_t{kTopK}}) {
      Matrix<bf16> q = random.activations(rows, kHeads * kHeadDim);
      const Matrix<float> sink = random.floats(1, kHeads, 4);
      Matrix<int32_t> selected(rows, kTopK, -1);
      for (int64_t m = 0; m < rows; ++m) {
        for (int64_t j = 0; j < count - m; ++j) selected.row(m)[j] = static_cast<int32_t>(j + j / 8);
      }
      const AttentionSequence sequence{.first_row = 0,
                                       .rows = rows,
                                       .position = 1000,
                                       .ring = ring.ring(),
                                       .first_record = 0,
                                       .step_records = rows,
                                       .step_position = 1000,
                                       .first_visible = 0,
                                       .compressed = compressed.list()};
      expect_same_bits<bf16>(rows, kHeads * kHeadDim, [&](Ops& ops, Matrix<bf16>& o) {
        ops.sparse_attention({.q = q.view(),
                              .heads = kHeads,
                              .head_dim = kHeadDim,
                              .window_size = 128,
                              .window = SparseAttention::Window::kCausal,
                              .step_records = step.view(),
                              .sequences = &sequence,
                              .sequence_count = 1,
                              .selected = selected.view(),
                              .sink = sink.row(0),
                              .o = o.view()});
      });
    }
  }
}

TEST_P(CpuThreads, IndexTopk) {
  RandomData random(2);
  const Matrix<bf16> values = random.activations(3000, kIndexDim);
  BlockRecords keys(3000, index_record_bytes(kIndexDim), 64);
  for (int64_t j = 0; j < 3000; ++j) encode_index_row(values.row(j), kIndexDim, keys.record(j));
  for (int64_t rows : {1, 2}) {
    const Matrix<bf16> queries = random.activations(rows, kIndexHeads * kIndexDim);
    const Matrix<bf16> weights = random.bf16s(rows, kIndexHeads, 0.1f, 1);
    Matrix<uint8_t> records(rows, kIndexHeads * index_record_bytes(kIndexDim));
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t h = 0; h < kIndexHeads; ++h) {
        encode_index_row(queries.row(m) + h * kIndexDim, kIndexDim, records.row(m) + h * index_record_bytes(kIndexDim));
      }
    }
    Matrix<int32_t> pool(rows, 64);
    for (int64_t position : {1000, 2990}) {
      const IndexSequence sequence{0, rows, position, keys.list()};
      for (IndexTopk::Pool use : {IndexTopk::Pool::kNone, IndexTopk::Pool::kMake, IndexTopk::Pool::kUse}) {
        expect_same_bits<int32_t>(rows, kTopK, [&](Ops& ops, Matrix<int32_t>& selected) {
          ops.index_topk({.queries = records.view(),
                          .weights = weights.view(),
                          .heads = kIndexHeads,
                          .head_dim = kIndexDim,
                          .ratio = 1,
                          .sequences = &sequence,
                          .sequence_count = 1,
                          .top_k = kTopK,
                          .selected = selected.view(),
                          .pool = use,
                          .candidate_block = 8,
                          .candidates = pool.view()});
        });
      }
    }
  }
}

TEST_P(CpuThreads, HyperConnections) {
  RandomData random(3);
  const int64_t wide = kHyperCopies * kHidden;
  const Matrix<float> fn = random.floats(24, wide, 0.02f), base = random.floats(1, 24, 1),
                      scale = random.floats(1, 3, 1);
  const Matrix<bf16> norm = random.bf16s(1, kHidden, 1, 0.1f);
  const HyperConnectionWeights weights{.fn = fn.row(0), .base = base.row(0), .scale = scale.row(0)};
  for (int64_t rows : {1, 5}) {
    const Matrix<bf16> streams = random.activations(rows, wide), y = random.activations(rows, kHidden);
    expect_same_bits<float>(rows, 24, [&](Ops& ops, Matrix<float>& mix) {
      const MatrixView<float> all = mix.view();
      ops.hyper_connection_mix({.streams = streams.view(),
                                .weights = weights,
                                .pre = all.columns_from(0, 4),
                                .post = all.columns_from(4, 4),
                                .comb = all.columns_from(8, 16)});
    });
    const Matrix<float> mix = random.floats(rows, 24, 1);
    expect_same_bits<bf16>(rows, kHidden, [&](Ops& ops, Matrix<bf16>& x) {
      ops.hyper_connection_collapse({streams.view(), mix.view().columns_from(0, 4), norm.row(0), 1e-6f, x.view()});
    });
    expect_same_bits<bf16>(rows, wide, [&](Ops& ops, Matrix<bf16>& out) {
      std::copy_n(streams.row(0), rows * wide, out.row(0));
      ops.hyper_connection_expand(
          {y.view(), mix.view().columns_from(4, 4), mix.view().columns_from(8, 16), out.view()});
    });
  }
}

// Blocks below a row of scale tiles, a block over many, groups.
TEST_P(CpuThreads, Products) {
  RandomData random(4);
  for (int64_t rows : {1, 2, 16}) {
    const Matrix<bf16> x = random.activations(rows, 8192);
    for (Format format : {Format::kFp8, Format::kFp4, Format::kBf16}) {
      for (const auto& shape : {std::pair<int64_t, int64_t>{511, 5120}, {1100, 1280}, {2000, 512}}) {
        const int64_t n = shape.first, k = shape.second;  // a lambda cannot hold structured bindings with Clang 14
        const OwnedWeight weight = random.weight(format, n, k);
        expect_same_bits<float>(rows, n, [&](Ops& ops, Matrix<float>& y) {
          ops.matmul({.x = x.view().columns_from(0, k), .weight = weight.view(), .y = {}, .y32 = y.view()});
        });
      }
    }
    const OwnedWeight weight = random.weight(Format::kFp8, 512, 4096);
    expect_same_bits<bf16>(rows, 512, [&](Ops& ops, Matrix<bf16>& y) {
      ops.grouped_matmul({.x = x.view(), .weight = weight.view(), .groups = 2, .y = y.view()});
    });
  }
}

TEST_P(CpuThreads, RouteAndExperts) {
  RandomData random(5);
  const int64_t width = 608;
  const OwnedWeight gate = random.weight(Format::kBf16, kExperts, kHidden);
  const Matrix<float> bias = random.floats(1, kExperts, 0.1f);
  std::vector<OwnedWeight> owned;
  const auto expert_of = [&](Format format) {
    owned.push_back(random.weight(format, width, kHidden));
    owned.push_back(random.weight(format, width, kHidden));
    owned.push_back(random.weight(format, kHidden, width));
  };
  for (int e = 0; e < kExperts; ++e) expert_of(Format::kFp4);
  expert_of(Format::kFp8);
  std::vector<ExpertWeights> experts;
  for (size_t i = 0; i < owned.size(); i += 3) {
    experts.push_back({.w1 = owned[i].view(), .w3 = owned[i + 1].view(), .w2 = owned[i + 2].view()});
  }
  for (int64_t rows : {1, 6}) {
    const Matrix<bf16> x = random.activations(rows, kHidden);
    Matrix<int32_t> expert(rows, 3);
    expect_same_bits<float>(rows, 3, [&](Ops& ops, Matrix<float>& weight) {
      ops.route({.x = x.view(),
                 .gate = gate.view(),
                 .bias = bias.row(0),
                 .top_k = 3,
                 .scaling = 2.5f,
                 .expert = expert.view(),
                 .weight = weight.view()});
    });
    const Matrix<float> weight(rows, 3, 0.3f);
    expect_same_bits<bf16>(rows, kHidden, [&](Ops& ops, Matrix<bf16>& y) {
      ops.mixture_of_experts({.x = x.view(),
                              .expert = expert.view(),
                              .weight = weight.view(),
                              .experts = experts.data(),
                              .expert_count = kExperts,
                              .shared = experts[kExperts],
                              .limit = 10,
                              .y = y.view()});
    });
    // The shared expert alone: so few tasks that they are made as small as they may be.
    const Matrix<int32_t> none(rows, 0);
    const Matrix<float> no_weight(rows, 0);
    expect_same_bits<bf16>(rows, kHidden, [&](Ops& ops, Matrix<bf16>& y) {
      ops.mixture_of_experts({.x = x.view(),
                              .expert = none.view(),
                              .weight = no_weight.view(),
                              .experts = experts.data(),
                              .expert_count = kExperts,
                              .shared = experts[kExperts],
                              .limit = 10,
                              .y = y.view()});
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuThreads, testing::ValuesIn(machine_paths()),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace deepinfer
