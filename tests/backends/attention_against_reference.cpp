// Attention of the CPU paths beside the reference, from the queries of one row to a chunk, over rings whose dead slots
// are poison.
#include "backends/against_reference.h"
#include "ops/cached_records.h"
#include "tensor/formats.h"

namespace deepinfer {
namespace {

constexpr int64_t kWidth = 512;

// One sequence of 400 positions with its records.
struct History {
  explicit History(RandomData& random)
      : ring(134, fp8_record_bytes(kWidth)),
        compressed(400, main_kv_record_bytes(kWidth)),
        window(400, fp8_record_bytes(kWidth)) {
    const Matrix<bf16> keys = random.activations(400, kWidth), latents = random.activations(400, kWidth);
    for (int64_t j = 0; j < 400; ++j) {
      encode_fp8_row(keys.row(j), kWidth, window.row(j));
      encode_main_kv_row(latents.row(j), kWidth, compressed.record(j));
    }
  }
  // The ring holds the 128 positions before `position`, the rest of it is poison.
  void fill_ring(int64_t position) {
    std::memset(ring.record(0), 0xFF, static_cast<size_t>(134 * fp8_record_bytes(kWidth)));
    for (int64_t p = std::max<int64_t>(0, position - 128); p < position; ++p) {
      std::memcpy(ring.record(p), window.row(p), static_cast<size_t>(fp8_record_bytes(kWidth)));
    }
  }
  RingRecords ring;
  BlockRecords compressed;
  Matrix<uint8_t> window;
};

struct Case {
  int heads;
  int64_t position;
  int64_t rows;
  int top_k;  // 0: window only
  int64_t first_visible = 0;
  SparseAttention::Window window = SparseAttention::Window::kCausal;
};

void run(Ops& ops, History& history, const Case& c, Matrix<bf16>& q, const Matrix<float>& sink,
         const Matrix<int32_t>& selected, Matrix<bf16>& o) {
  const AttentionSequence sequence{.first_row = 0,
                                   .rows = c.rows,
                                   .position = c.position,
                                   .ring = history.ring.ring(),
                                   .first_record = 0,
                                   .step_records = c.rows,
                                   .step_position = c.position,
                                   .first_visible = c.first_visible,
                                   .compressed = history.compressed.list()};
  ops.sparse_attention({.q = q.view(),
                        .heads = c.heads,
                        .head_dim = kWidth,
                        .window_size = 128,
                        .window = c.window,
                        .step_records = {history.window.row(c.position), c.rows, fp8_record_bytes(kWidth)},
                        .sequences = &sequence,
                        .sequence_count = 1,
                        .selected = c.top_k > 0 ? selected.view() : MatrixView<const int32_t>(),
                        .sink = sink.row(0),
                        .o = o.view()});
}

TEST_P(AgainstReference, SparseAttention) {
  using Window = SparseAttention::Window;
  RandomData random(20);
  History history(random);
  for (const Case& c : {Case{4, 0, 1, 0}, Case{4, 0, 40, 16}, Case{4, 200, 1, 128}, Case{5, 250, 6, 100},
                        Case{64, 300, 2, 512}, Case{64, 399, 1, 512}, Case{4, 127, 70, 30}, Case{4, 200, 9, 40, 190},
                        Case{4, 200, 5, 0, 0, Window::kDraftBlock}, Case{64, 3, 5, 0, 0, Window::kDraftBlock},
                        Case{3, 150, 3, 0, 140, Window::kDraftBlock}}) {
    history.fill_ring(c.position);
    Matrix<bf16> q = random.activations(c.rows, c.heads * kWidth);
    const Matrix<float> sink = random.floats(1, c.heads, 4);
    Matrix<int32_t> selected(c.rows, std::max(c.top_k, 1), -1);
    for (int64_t m = 0; m < c.rows; ++m) {
      const int64_t visible = std::min<int64_t>(c.top_k, c.position + m + 1);
      int64_t row = 0;
      for (int64_t j = 0; j < visible && m % 5 != 4; ++j) {  // each fifth row selects nothing
        selected.row(m)[j] = static_cast<int32_t>(row);
        row += 1 + (c.position > 100 && c.top_k < 200 ? random.below(2) : 0);
      }
    }
    Matrix<bf16> got(c.rows, c.heads * kWidth), want(c.rows, c.heads * kWidth);
    run(*ops_, history, c, q, sink, selected, got);
    run(*reference_, history, c, q, sink, selected, want);
    for (int64_t m = 0; m < c.rows; ++m) {
      EXPECT_LT(scale_free_error(got.row_values(m), want.row_values(m)), 1e-7)
          << "position " << c.position << " row " << m << " of " << c.rows;
    }
  }
}

TEST_P(AgainstReference, AttentionToNothingIsZero) {
  RandomData random(21);
  History history(random);
  const Case c{4, 200, 1, 0, 201};  // not even its own record
  Matrix<bf16> q = random.activations(1, 4 * kWidth);
  const Matrix<float> sink(1, 4, 0.5f);
  Matrix<bf16> o(1, 4 * kWidth, to_bf16(7));
  run(*ops_, history, c, q, sink, {}, o);
  for (const bf16 value : o.values()) EXPECT_EQ(value.bits, 0);
}

TEST_P(AgainstReference, AttentionOfOneKeyIsThatKey) {
  // The softmax of one row without a sink is 1: the output is the key, exactly.
  RandomData random(22);
  History history(random);
  const Case c{4, 7, 1, 0, 7};
  Matrix<bf16> q = random.activations(1, 4 * kWidth);
  const Matrix<float> sink(1, 4, -1e30f);
  Matrix<bf16> o(1, 4 * kWidth), key(1, kWidth);
  run(*ops_, history, c, q, sink, {}, o);
  decode_fp8_row(history.window.row(7), kWidth, key.row(0));
  for (int64_t i = 0; i < 4 * kWidth; ++i) ASSERT_EQ(to_float(o.row(0)[i]), to_float(key.row(0)[i % kWidth])) << i;
}

}  // namespace
}  // namespace deepinfer
