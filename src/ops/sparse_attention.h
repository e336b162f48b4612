// Attention of one layer: window rows and selected compressed rows under one softmax with a sink
// (specs/v41-model.md 2.3, 4.2).  Keys are the values; all heads share them.
#pragma once

#include <cstdint>

#include "ops/rope.h"
#include "ops/sequence.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

struct AttentionSequence {
  int64_t first_row = 0;               // of q
  int64_t rows = 0;
  int64_t position = 0;                // of first_row
  Ring ring;                           // window records of positions before this step
  int64_t first_record = 0;            // row of step_records that holds step_position
  int64_t step_records = 0;            // records this sequence has in the step
  int64_t step_position = 0;           // position of the first of them; <= position (prefill may keep more keys than queries)
  int64_t first_visible = 0;           // window rows of earlier positions do not exist and are never read (v41-model.md 3.3)
  BlockList compressed;                // of the KV source; unused where selected is empty
};

// Row order inside a sum: window rows by position, then compressed rows ascending.  Per head:
//   s_j = (q . k_j) * head_dim^-0.5 in fp32;  m = max(s_j) floored at -1e30, the sink left out
//   o = bf16( sum_j bf16(exp(s_j - m)) k_j / (sum_j exp(s_j - m) + exp(sink - m)) ).  No visible row: exactly 0.
// Hidden, stale and never-written slots are not read (their bytes may decode to NaN).
// With a table it is the whole step from the query projection to the input of the output projection: first q is rotated
// as Rope does; last o is rotated back as Rope with `inverse`, and rounded as QuantizeActivation does.
struct SparseAttention {
  enum class Window : uint8_t {
    // Lower bounds are max(first_visible, ...), and first_visible >= 0.
    kCausal,      // position p sees the records of p - window + 1 .. p
    kDraftBlock,  // every row sees ring positions position - window .. position - 1 and all step records (4.2)
  };
  MatrixView<bf16> q;                  // [rows, heads * head_dim]; with a table its values are of no use afterwards
  int heads = 0;
  int head_dim = 0;
  int window_size = 128;
  Window window = Window::kCausal;
  MatrixView<const uint8_t> step_records;  // [records, fp8_record_bytes(head_dim)]
  const AttentionSequence* sequences = nullptr;
  int sequence_count = 0;
  MatrixView<const int32_t> selected;  // [rows, top_k] ascending, -1 fills; no data: window rows only
  const float* sink = nullptr;         // [heads], not scaled
  MatrixView<bf16> o;                  // [rows, heads * head_dim]
  RopeTable table = {};                // no pairs: q is rotated already, o stays so and is not rounded
  const int64_t* position = nullptr;   // [rows], with a table: of each row, as the sequences have it

  // What comes before and after the sums, for backends that compose the step.
  Rope query_rotation() const { return {q, position, heads, head_dim, table, false}; }
  Rope output_rotation() const { return {o, position, heads, head_dim, table, true}; }
};

}  // namespace deepinfer
