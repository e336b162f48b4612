// Compressed KV and index keys of the KV source layers (specs/v41-model.md 2.4).
#pragma once

#include <cstdint>

#include "ops/rope.h"
#include "ops/sequence.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

// Ratio 2: pools the tokens 2j and 2j+1.  Per channel a softmax over the two gate logits weighs the two values, in fp32;
// the sum is cast to bf16 and normed.  A group is emitted when its odd token is in the step; the half group of an even
// last token waits in the ring (fp32, [slot][gate logits | values]).  The partner of an odd first token is read there.
struct CompressSequence {
  int64_t first_row = 0;               // of value and gate
  int64_t rows = 0;
  int64_t position = 0;                // of first_row
  int64_t first_group = 0;             // row of latent that receives this sequence's first completed group
  Ring half_groups;                    // record: 2 * width floats; written for every even position of the step (a
                                       // verify step may be rolled back behind any of them)
};

struct CompressPairs {
  MatrixView<const float> value;       // [rows, width]: wkv x
  MatrixView<const float> gate;        // [rows, width]: wgate x
  const CompressSequence* sequences = nullptr;
  int sequence_count = 0;
  const bf16* norm = nullptr;          // [width]
  float eps = 0;
  MatrixView<bf16> latent;             // [groups, width], groups = sum of (position+rows)/2 - position/2; not rotated
};

// Rows [first_row, first_row + rows) of a matrix are records [record, record + rows) of a sequence.
struct StoreSequence {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t record = 0;                  // group index of first_row; its position is record * ratio
  BlockList destination;
};

// record = FP4(RoPE(latent)), section 6.3, rotated at position record * ratio.
struct StoreCompressed {
  MatrixView<const bf16> latent;       // [groups, width]; not rotated, left unchanged
  int ratio = 1;
  RopeTable table;
  const StoreSequence* sequences = nullptr;
  int sequence_count = 0;
};

// record = FP4(RoPE(RMSNorm(key))), section 6.4.
struct StoreIndexKeys {
  MatrixView<const bf16> key;          // [groups, index_head_dim]: wk latent
  const bf16* norm = nullptr;          // [index_head_dim]
  float eps = 0;
  int ratio = 1;
  RopeTable table;
  const StoreSequence* sequences = nullptr;
  int sequence_count = 0;
};

}  // namespace deepinfer
