// Operations that write the cached records of a sequence: window rows, half groups, compressed rows, index keys; and
// the index queries, which share the keys' format.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "base/check.h"
#include "tensor/formats.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kMostChannels = 2048;  // of a cached row; bounds the stack copies below
using RowCopy = std::array<uint16_t, kMostChannels>;

const uint16_t* raw(const bf16* x) {
  return reinterpret_cast<const uint16_t*>(x);
}
uint16_t* raw(bf16* x) {
  return reinterpret_cast<uint16_t*>(x);
}

int64_t most_rows(const StoreSequence* sequences, int count) {
  int64_t total = 0;
  for (int s = 0; s < count; ++s) total += sequences[s].rows;
  return total;
}

struct StorePlace {
  const StoreSequence* sequence;
  int64_t index;
};

// The i-th of the rows of all sequences.
StorePlace find_row(const StoreSequence* sequences, int64_t i) {
  while (i >= sequences->rows) i -= sequences++->rows;
  return {sequences, i};
}

}  // namespace

void Steps::make_window_records(const MakeWindowRecords& op) {
  const int64_t width = op.kv.columns;
  DI_CHECK(op.records.columns == fp8_record_bytes(width) && width <= kMostChannels,
           "records are FP8 rows of the key's width");
  const int slot = rotations_.find_table(op.table);
  for_each_row(pool_, op.kv.rows, 4 * width, [&](int64_t m, int) {
    RotationCache::Scratch scratch;
    RowCopy row;
    const Rotation r = rotations_.at(slot, m, op.position[m], scratch);
    kernels_.rms_norm(raw(op.kv.row(m)), raw(op.norm), width, op.eps, row.data());
    kernels_.rope(row.data(), 1, width, 2 * op.table.pairs, r.cos, r.sin);
    kernels_.encode_fp8(row.data(), width, op.records.row(m));
  });
}

void Steps::commit_window(const CommitWindow& op) {
  for (int s = 0; s < op.sequence_count; ++s) {
    const WindowCommit& sequence = op.sequences[s];
    DI_CHECK(sequence.ring.record_bytes == op.records.columns, "the ring holds records of the step's size");
    for (int64_t i = std::max<int64_t>(0, sequence.rows - sequence.ring.slots); i < sequence.rows; ++i) {
      std::memcpy(sequence.ring.record(sequence.position + i), op.records.row(sequence.first_row + i),
                  static_cast<size_t>(op.records.columns));
    }
  }
}

void Steps::compress_pairs(const CompressPairs& op) {
  const int64_t width = op.latent.columns;
  DI_CHECK(op.value.columns == width && op.gate.columns == width, "all rows have one width");
  const auto row_bytes = static_cast<size_t>(width) * sizeof(float);
  for (int s = 0; s < op.sequence_count; ++s) {
    const CompressSequence& sequence = op.sequences[s];
    DI_CHECK(sequence.half_groups.record_bytes == 2 * width * int64_t{sizeof(float)},
             "a half group is one row of gate logits and one of values");
    const int64_t first_pair = sequence.position / 2;
    const int64_t groups = (sequence.position + sequence.rows) / 2 - first_pair;
    for_each_row(pool_, groups, 16 * width, [&](int64_t g, int) {
      const int64_t odd = sequence.first_row + 2 * (first_pair + g) + 1 - sequence.position;
      const float* even_gate;
      const float* even_value;
      if (odd > sequence.first_row) {
        even_gate = op.gate.row(odd - 1);
        even_value = op.value.row(odd - 1);
      } else {  // its partner came with an earlier step
        even_gate = reinterpret_cast<const float*>(sequence.half_groups.record(sequence.position - 1));
        even_value = even_gate + width;
      }
      uint16_t* latent = raw(op.latent.row(sequence.first_group + g));
      kernels_.pool_pair(even_gate, even_value, op.gate.row(odd), op.value.row(odd), width, latent);
      kernels_.rms_norm(latent, raw(op.norm), width, op.eps, latent);
    });
    // After the pools: the ring may be shorter than the step, and then a new half group replaces the one just read.  Of
    // two positions with one slot the later one stays; 2 * slots positions hold the last even one of every slot.
    const int64_t skipped = std::max<int64_t>(0, sequence.rows - 2 * sequence.half_groups.slots);
    for (int64_t i = skipped + (sequence.position + skipped) % 2; i < sequence.rows; i += 2) {
      std::byte* record = sequence.half_groups.record(sequence.position + i);
      std::memcpy(record, op.gate.row(sequence.first_row + i), row_bytes);
      std::memcpy(record + row_bytes, op.value.row(sequence.first_row + i), row_bytes);
    }
  }
}

void Steps::store_compressed(const StoreCompressed& op) {
  const int64_t width = op.latent.columns;
  DI_CHECK(width <= kMostChannels, "compressed rows have at most 2,048 channels");
  const int slot = rotations_.find_table(op.table);
  for_each_row(pool_, most_rows(op.sequences, op.sequence_count), 8 * width, [&](int64_t i, int) {
    const auto [sequence, index] = find_row(op.sequences, i);
    DI_CHECK(sequence->destination.record_bytes == main_kv_record_bytes(width), "blocks hold records of this width");
    const int64_t record = sequence->record + index;
    RotationCache::Scratch scratch;
    RowCopy row;
    const Rotation r = rotations_.compute(slot, record * op.ratio, scratch);
    std::memcpy(row.data(), op.latent.row(sequence->first_row + index), static_cast<size_t>(width) * sizeof(bf16));
    kernels_.rope(row.data(), 1, width, 2 * op.table.pairs, r.cos, r.sin);
    kernels_.encode_main(row.data(), width, reinterpret_cast<uint8_t*>(sequence->destination.record(record)));
  });
}

void Steps::store_index_keys(const StoreIndexKeys& op) {
  const int64_t width = op.key.columns;
  DI_CHECK(width <= kMostChannels, "index keys have at most 2,048 channels");
  const int slot = rotations_.find_table(op.table);
  for_each_row(pool_, most_rows(op.sequences, op.sequence_count), 16 * width, [&](int64_t i, int) {
    const auto [sequence, index] = find_row(op.sequences, i);
    DI_CHECK(sequence->destination.record_bytes == index_record_bytes(width), "blocks hold records of this width");
    const int64_t record = sequence->record + index;
    RotationCache::Scratch scratch;
    RowCopy row;
    const Rotation r = rotations_.compute(slot, record * op.ratio, scratch);
    kernels_.rms_norm(raw(op.key.row(sequence->first_row + index)), raw(op.norm), width, op.eps, row.data());
    kernels_.rope(row.data(), 1, width, 2 * op.table.pairs, r.cos, r.sin);
    kernels_.encode_index(row.data(), width, reinterpret_cast<uint8_t*>(sequence->destination.record(record)));
  });
}

void Steps::make_index_queries(const MakeIndexQueries& op) {
  const int64_t record_bytes = index_record_bytes(op.head_dim);
  DI_CHECK(op.q.columns == int64_t{op.heads} * op.head_dim && op.records.columns == op.heads * record_bytes,
           "q is [rows, heads * head_dim], records one record a head");
  DI_CHECK(op.head_dim <= kMostChannels, "index heads have at most 2,048 channels");
  const int slot = rotations_.find_table(op.table);
  for_each_row(pool_, op.q.rows, 4 * op.q.columns, [&](int64_t m, int) {
    RotationCache::Scratch scratch;
    RowCopy head;
    const Rotation r = rotations_.at(slot, m, op.position[m], scratch);
    for (int64_t h = 0; h < op.heads; ++h) {
      std::memcpy(head.data(), op.q.row(m) + h * op.head_dim, static_cast<size_t>(op.head_dim) * sizeof(bf16));
      kernels_.rope(head.data(), 1, op.head_dim, 2 * op.table.pairs, r.cos, r.sin);
      kernels_.encode_index(head.data(), op.head_dim, op.records.row(m) + h * record_bytes);
    }
  });
}

}  // namespace deepinfer::cpu
