// Operations over sequences: their lists go to the device, in several parts where they are long.
#include <algorithm>
#include <type_traits>

#include "backends/cuda/any_ops.h"
#include "backends/cuda/any_ops_scratch.h"
#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/records/records.h"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/kernels/selection/selection.h"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr auto no_blocks = [](auto&) -> BlockList* { return nullptr; };

void check_records(const BlockList& list, int64_t records) {
  DI_CHECK(records <= list.count * list.rows_per_block, "a list names its blocks' count");
}

// The blocks that a sequence's records go to.
BlockList* destination(StoreSequence& sequence) {
  check_records(sequence.destination, sequence.rows > 0 ? sequence.record + sequence.rows : 0);
  return &sequence.destination;
}

}  // namespace

// launch(list, first, last): the sequences [first, last) as a list on the device.
template <typename Sequence, typename BlocksOf, typename Launch>
void AnyOps::for_lists(const Sequence* sequences, int count, BlocksOf blocks_of, Launch launch) {
  using Entry = SequenceEntry<Sequence>;
  const auto bytes_of = [&](Sequence sequence) {
    const BlockList* list = blocks_of(sequence);
    return UploadRing::room<Entry>(1) +
           (list == nullptr || list->blocks == nullptr ? 0 : UploadRing::room<std::byte*>(list->count));
  };
  for (int first = 0; well() && first < count;) {
    int last = first;
    int64_t bytes = 0;
    for (; last < count; ++last) {
      const int64_t more = bytes_of(sequences[last]);
      if (last > first && bytes + more > ring_.parcel_bytes()) break;
      bytes += more;
    }
    note(ring_.begin(bytes));
    if (!well()) return;
    Entry* entries = nullptr;
    SequenceList<Sequence> list{ring_.place(last - first, &entries), last - first, 0};
    for (int s = first; s < last; ++s) {
      Entry& entry = entries[s - first];
      entry = {sequences[s], list.rows};
      if (BlockList* blocks = blocks_of(entry.sequence); blocks != nullptr && blocks->blocks != nullptr)
        blocks->blocks = ring_.put(blocks->blocks, blocks->count);
      list.rows += sequences[s].rows;
    }
    note(ring_.send());
    if (well()) note(launch(list, first, last));
    first = last;
  }
}

void AnyOps::commit_window(const CommitWindow& op) {
  CommitWindow there = op;
  there.sequences = nullptr;
  // The next to read the rings is attention, as for the records themselves.
  launches_.begin_beside(SideLine::kRecords);
  for_lists(op.sequences, op.sequence_count, no_blocks,
            [&](const SequenceList<WindowCommit>& list, int, int) { return any_commit_window(there, list, stream_); });
  launches_.end_beside();
}

void AnyOps::compress_pairs(const CompressPairs& op) {
  CompressPairs there = op;
  there.sequences = nullptr;
  for_lists(op.sequences, op.sequence_count, no_blocks, [&](const SequenceList<CompressSequence>& list, int, int) {
    return any_compress_pairs(there, list, stream_);
  });
}

void AnyOps::store_compressed(const StoreCompressed& op) {
  StoreCompressed there = op;
  there.sequences = nullptr;
  for_lists(op.sequences, op.sequence_count, destination, [&](const SequenceList<StoreSequence>& list, int, int) {
    return any_store_compressed(there, list, stream_);
  });
}

void AnyOps::store_index_keys(const StoreIndexKeys& op) {
  StoreIndexKeys there = op;
  there.sequences = nullptr;
  for_lists(op.sequences, op.sequence_count, destination, [&](const SequenceList<StoreSequence>& list, int, int) {
    return any_store_index_keys(there, list, stream_);
  });
}

Status AnyOps::attend(const SparseAttention& op, const SequenceList<AttentionSequence>& list, int64_t window_rows) {
  AttentionStep step;
  step.op = op;
  step.op.sequences = nullptr;
  step.list = list;
  const int64_t compressed = op.selected.data == nullptr ? 0 : op.selected.columns;
  step.slots = (window_rows + compressed + 15) / 16 * 16;
  const int64_t of_row = attention_row_bytes(op.heads, step.slots);
  const int64_t most = std::min<int64_t>(attention_.bytes() / of_row, 65535);
  DI_CHECK(most > 0, "heads, window and top_k of limits");
  for (step.first = 0; step.first < list.rows; step.first += step.count) {
    step.count = std::min(most, list.rows - step.first);
    const int64_t scores = step.count * op.heads * step.slots;
    step.scores = attention_.as<float>();
    step.denominators = step.scores + scores;
    step.weights = reinterpret_cast<bf16*>(step.denominators + step.count * op.heads);
    DI_RETURN_IF_ERROR(any_attention_scores(step, stream_));
    DI_RETURN_IF_ERROR(any_attention_weights(step, stream_));
    DI_RETURN_IF_ERROR(any_attention_values(step, stream_));
  }
  return {};
}

void AnyOps::sparse_attention(const SparseAttention& op) {
  DI_CHECK(op.q.columns == int64_t{op.heads} * op.head_dim && op.o.columns == op.q.columns && op.head_dim % 32 == 0,
           "q and o are [rows, heads * head_dim], head_dim a multiple of 32");
  DI_CHECK(op.q.rows == 0 || (reinterpret_cast<uintptr_t>(op.q.data) % 16 == 0 && op.q.stride % 8 == 0),
           "rows of q lie on 16-byte boundaries");
  launches_.join(SideLine::kRecords);
  const bool rotates = op.table.pairs > 0;
  if (rotates) rope(op.query_rotation());
  for_lists(
      op.sequences, op.sequence_count,
      [&](AttentionSequence& sequence) { return op.selected.data == nullptr ? nullptr : &sequence.compressed; },
      [&](const SequenceList<AttentionSequence>& list, int first, int last) {
        int64_t window_rows = op.window_size;
        if (op.window == SparseAttention::Window::kDraftBlock) {
          int64_t most = 0;
          for (int s = first; s < last; ++s) {
            DI_CHECK(op.sequences[s].step_position == op.sequences[s].position, "a draft block follows its context");
            most = std::max(most, op.sequences[s].step_records);
          }
          window_rows += most;
        }
        return attend(op, list, window_rows);
      });
  if (!rotates) return;
  const Rope rotation = op.output_rotation();
  if (any_rope_quantize_takes(rotation)) {
    if (well()) note(any_rope_quantize(rotation, stream_));
    return;
  }
  rope(rotation);
  quantize_activation({op.o, op.o});
}

Status AnyOps::select(const IndexTopk& op, const SequenceList<IndexSequence>& list, int64_t most_visible) {
  const auto splits = [](const IndexTopk& of, int64_t keys, int64_t) {
    return splits_of_keys(keys, of.candidate_block);
  };
  return select_by({splits, any_index_scores, any_index_best}, op, list, most_visible);
}

Status AnyOps::select_by(const SelectionKernels& kernels, const IndexTopk& op, const SequenceList<IndexSequence>& list,
                         int64_t most_visible) {
  const bool make = op.pool == IndexTopk::Pool::kMake, use = op.pool == IndexTopk::Pool::kUse;
  SelectionStep step;
  step.op = op;
  step.op.sequences = nullptr;
  step.list = list;
  step.visible = most_visible;
  step.splits = kernels.splits(op, use ? op.candidates.columns * op.candidate_block : most_visible, list.rows);
  step.rows.most = op.top_k;
  step.blocks.most = make ? op.candidates.columns : 0;
  const int64_t of_row = selection_row_bytes(step.splits, step.rows.most, step.blocks.most);
  const int64_t most = std::min<int64_t>(selection_.bytes() / of_row, 65535);
  DI_CHECK(most > 0, "context, top_k and candidate blocks of limits");
  for (step.first = 0; step.first < list.rows; step.first += step.count) {
    step.count = std::min(most, list.rows - step.first);
    const int64_t splits = step.count * step.splits;
    step.rows.keys = selection_.as<uint64_t>();
    step.blocks.keys = step.rows.keys + splits * step.rows.most;
    step.rows.counts = reinterpret_cast<int32_t*>(step.blocks.keys + splits * step.blocks.most);
    step.blocks.counts = step.rows.counts + splits;
    DI_RETURN_IF_ERROR(kernels.scores(step, stream_));
    DI_RETURN_IF_ERROR(kernels.best(step, stream_));
  }
  return {};
}

void AnyOps::index_topk(const IndexTopk& op) {
  DI_CHECK(op.selected.columns == op.top_k && op.top_k > 0, "selected is [rows, top_k]");
  for_lists(
      op.sequences, op.sequence_count,
      [&](IndexSequence& sequence) {
        check_records(sequence.keys, (sequence.position + sequence.rows) / op.ratio);
        return &sequence.keys;
      },
      [&](const SequenceList<IndexSequence>& list, int first, int last) {
        int64_t most_visible = 0;
        for (int s = first; s < last; ++s)
          most_visible = std::max(most_visible, (op.sequences[s].position + op.sequences[s].rows) / op.ratio);
        return select(op, list, most_visible);
      });
}

}  // namespace deepinfer::cuda
