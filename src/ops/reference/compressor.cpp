#include "ops/compressor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/reference/norm.h"
#include "ops/reference/reference.h"
#include "ops/reference/rope.h"
#include "tensor/formats.h"

namespace deepinfer::reference {
namespace {

struct HalfGroup {
  const float* gate;
  const float* value;
};

// One latent row from the tokens 2j and 2j + 1.
void pool_pair(HalfGroup even, HalfGroup odd, const CompressPairs& op, bf16* latent) {
  const int64_t width = op.latent.columns;
  for (int64_t c = 0; c < width; ++c) {
    const float top = std::max(even.gate[c], odd.gate[c]);
    const float e0 = std::exp(even.gate[c] - top);
    const float e1 = std::exp(odd.gate[c] - top);
    const float sum = e0 + e1;
    latent[c] = to_bf16(e0 / sum * even.value[c] + e1 / sum * odd.value[c]);
  }
  rms_norm_row(latent, op.norm, width, op.eps, latent);
}

void compress_sequence(const CompressPairs& op, const CompressSequence& sequence) {
  const int64_t width = op.latent.columns;
  DI_CHECK(sequence.half_groups.record_bytes == 2 * width * int64_t{sizeof(float)},
           "a half group is one row of gate logits and one of values");
  int64_t group = sequence.first_group;
  std::vector<float> stored(static_cast<size_t>(2 * width));
  for (int64_t i = 0; i < sequence.rows; ++i) {
    const int64_t position = sequence.position + i;
    const int64_t row = sequence.first_row + i;
    const HalfGroup here{op.gate.row(row), op.value.row(row)};
    if (position % 2 == 0) {
      std::byte* slot = sequence.half_groups.record(position);
      std::memcpy(slot, here.gate, static_cast<size_t>(width) * sizeof(float));
      std::memcpy(slot + width * int64_t{sizeof(float)}, here.value, static_cast<size_t>(width) * sizeof(float));
    } else if (i > 0) {
      pool_pair({op.gate.row(row - 1), op.value.row(row - 1)}, here, op, op.latent.row(group++));
    } else {
      std::memcpy(stored.data(), sequence.half_groups.record(position - 1), stored.size() * sizeof(float));
      pool_pair({stored.data(), stored.data() + width}, here, op, op.latent.row(group++));
    }
  }
}

template <typename Encode>
void store_rows(const StoreSequence* sequences, int count, int64_t record_bytes, Encode encode) {
  for (int s = 0; s < count; ++s) {
    DI_CHECK(sequences[s].destination.record_bytes == record_bytes, "blocks hold records of this width");
    for (int64_t i = 0; i < sequences[s].rows; ++i) {
      const int64_t record = sequences[s].record + i;
      auto* to = reinterpret_cast<uint8_t*>(sequences[s].destination.record(record));
      encode(sequences[s].first_row + i, record, to);
    }
  }
}

}  // namespace

void compress_pairs(const CompressPairs& op) {
  DI_CHECK(op.value.columns == op.latent.columns && op.gate.columns == op.latent.columns, "all rows have one width");
  for (int s = 0; s < op.sequence_count; ++s) compress_sequence(op, op.sequences[s]);
}

void store_compressed(const StoreCompressed& op) {
  const int64_t width = op.latent.columns;
  std::vector<bf16> row(static_cast<size_t>(width));
  store_rows(op.sequences, op.sequence_count, main_kv_record_bytes(width), [&](int64_t m, int64_t record, uint8_t* to) {
    std::copy_n(op.latent.row(m), width, row.data());
    rotate(row.data(), width, record * op.ratio, op.table);
    encode_main_kv_row(row.data(), width, to);
  });
}

void store_index_keys(const StoreIndexKeys& op) {
  const int64_t width = op.key.columns;
  std::vector<bf16> row(static_cast<size_t>(width));
  store_rows(op.sequences, op.sequence_count, index_record_bytes(width), [&](int64_t m, int64_t record, uint8_t* to) {
    rms_norm_row(op.key.row(m), op.norm, width, op.eps, row.data());
    rotate(row.data(), width, record * op.ratio, op.table);
    encode_index_row(row.data(), width, to);
  });
}

}  // namespace deepinfer::reference
