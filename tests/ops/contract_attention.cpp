// Contracts of sparse attention: what a query sees and what the sink does.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cached_records.h"
#include "ops/contract_suite.h"
#include "ops/matrix.h"
#include "ops/random_data.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr int64_t kWidth = 512;

}  // namespace

TEST_P(OpsContract, AttentionWithoutVisibleRowsIsZero) {
  RandomData random(31);
  Matrix<bf16> q = random.bf16s(2, 4 * kWidth, 0, 1);
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
  RandomData random(32);
  const Matrix<bf16> rows = random.activations(200, kWidth);
  Matrix<bf16> q = random.bf16s(1, 2 * kWidth, 0, 0.2f);
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

TEST_P(OpsContract, TheSinkIsNotPartOfTheMaximum) {
  // One visible row: its numerator is exactly 1 however large the sink is.
  RandomData random(36);
  const Matrix<bf16> k = random.activations(1, kWidth);
  Matrix<uint8_t> step(1, fp8_record_bytes(kWidth));
  Matrix<bf16> value(1, kWidth);
  encode_fp8_row(k.row(0), kWidth, step.row(0));
  decode_fp8_row(step.row(0), kWidth, value.row(0));
  Matrix<bf16> q(1, 4 * kWidth);  // all logits are 0
  const std::vector<float> sink = {-3, 0.3f, 3, 4.7f};
  RingRecords ring(134, fp8_record_bytes(kWidth));
  const AttentionSequence sequence{.first_row = 0,
                                   .rows = 1,
                                   .position = 0,
                                   .ring = ring.ring(),
                                   .first_record = 0,
                                   .step_records = 1,
                                   .step_position = 0,
                                   .compressed = {}};
  Matrix<bf16> o(1, 4 * kWidth);
  ops_->sparse_attention({.q = q.view(),
                          .heads = 4,
                          .head_dim = static_cast<int>(kWidth),
                          .window_size = 128,
                          .step_records = step.view(),
                          .sequences = &sequence,
                          .sequence_count = 1,
                          .selected = {},
                          .sink = sink.data(),
                          .o = o.view()});
  int64_t unequal = 0;
  for (int64_t h = 0; h < 4; ++h) {
    for (int64_t c = 0; c < kWidth; ++c) {
      const double want = to_float(value.row(0)[c]) / (1 + std::exp(double{sink[h]}));
      const bf16 got = o.row(0)[h * kWidth + c];
      EXPECT_NEAR(to_float(got), want, std::abs(want) * 0x1.01p-8) << h << " " << c;
      unequal += to_float(got) != to_float(to_bf16(static_cast<float>(want)));
    }
  }
  EXPECT_LE(unequal, 4);
}

}  // namespace deepinfer
