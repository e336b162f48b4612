#include "bench/gpu_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <vector>

#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/device_memory.h"
#include "backends/cuda/launch/graph.h"
#include "tensor/formats.h"

namespace deepinfer::bench {
namespace {

constexpr int kHeads = 64, kHeadDim = 512, kWindow = 128, kTopK = 512;  // of the released model
constexpr int64_t kRing = 134, kContext = 4096, kBlock = 256;           // records of a sequence, of a block
constexpr int64_t kSequences = 256;                                     // their visible records are more than an L2
constexpr int64_t kWindowBytes = fp8_record_bytes(kHeadDim), kRecordBytes = main_kv_record_bytes(kHeadDim);
constexpr double kRowFlops = 4.0 * kHeads * kHeadDim * (kWindow + kTopK);
constexpr double kRowBytes = double{kWindow * kWindowBytes} + double{kTopK * kRecordBytes} + 4.0 * kHeads * kHeadDim;

struct Records {
  cuda::DeviceBuffer ring, step, compressed, blocks, selected, q, o, sink, entries;
};

// Random codes with the scales that records have.
std::vector<uint8_t> records_of(std::mt19937_64& random, int64_t count, int64_t bytes, int64_t data,
                                uint8_t first_scale) {
  std::vector<uint8_t> records(static_cast<size_t>(count * bytes));
  for (int64_t i = 0; i < count * bytes; ++i) {
    const auto code = static_cast<uint8_t>(random());
    auto& to = records[static_cast<size_t>(i)];
    to = i % bytes < data ? static_cast<uint8_t>(code & 0xb7u) : static_cast<uint8_t>(first_scale + code % 8);
  }
  return records;
}

Result<Records> random_records(cuda::DeviceMemory& memory) {
  std::mt19937_64 random(1);
  Records records;
  // The same bytes for each sequence, at places of its own.
  const auto fill = [&](cuda::DeviceBuffer& buffer, const std::vector<uint8_t>& of_sequence) -> Status {
    const auto bytes = static_cast<int64_t>(of_sequence.size());
    DI_ASSIGN_OR_RETURN(buffer, cuda::DeviceBuffer::allocate(kSequences * bytes));
    for (int64_t s = 0; s < kSequences; ++s)
      memory.write(buffer.data() + s * bytes, of_sequence.data(), of_sequence.size());
    return {};
  };
  DI_RETURN_IF_ERROR(fill(records.ring, records_of(random, kRing, kWindowBytes, kHeadDim, 118)));
  DI_RETURN_IF_ERROR(fill(records.step, records_of(random, 1, kWindowBytes, kHeadDim, 118)));
  DI_RETURN_IF_ERROR(fill(records.compressed, records_of(random, kContext, kRecordBytes, kHeadDim / 2, 0x18)));
  std::vector<uint8_t> q(static_cast<size_t>(kHeads * kHeadDim * 2));
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < q.size(); i += 2) {
    const bf16 value = to_bf16(normal(random));
    q[i] = static_cast<uint8_t>(value.bits);
    q[i + 1] = static_cast<uint8_t>(value.bits >> 8);
  }
  DI_RETURN_IF_ERROR(fill(records.q, q));
  DI_ASSIGN_OR_RETURN(records.o, cuda::DeviceBuffer::allocate(kSequences * kHeads * kHeadDim * 2));
  const std::vector<float> sink(kHeads, 0.5f);
  DI_ASSIGN_OR_RETURN(records.sink, cuda::DeviceBuffer::allocate(kHeads * 4));
  memory.write(records.sink.data(), sink.data(), sink.size() * 4);
  constexpr int64_t kBlocks = kContext / kBlock;
  std::vector<std::byte*> blocks;
  for (int64_t b = 0; b < kSequences * kBlocks; ++b)
    blocks.push_back(records.compressed.data() + b * kBlock * kRecordBytes);
  DI_ASSIGN_OR_RETURN(records.blocks, cuda::DeviceBuffer::allocate(kSequences * kBlocks * 8));
  memory.write(records.blocks.data(), blocks.data(), blocks.size() * 8);
  std::vector<int32_t> all(kContext), selected;
  for (int64_t s = 0; s < kSequences; ++s) {
    for (int64_t j = 0; j < kContext; ++j) all[static_cast<size_t>(j)] = static_cast<int32_t>(j);
    std::shuffle(all.begin(), all.end(), random);
    std::sort(all.begin(), all.begin() + kTopK);
    selected.insert(selected.end(), all.begin(), all.begin() + kTopK);
  }
  DI_ASSIGN_OR_RETURN(records.selected, cuda::DeviceBuffer::allocate(kSequences * kTopK * 4));
  memory.write(records.selected.data(), selected.data(), selected.size() * 4);
  DI_ASSIGN_OR_RETURN(records.entries, cuda::DeviceBuffer::allocate(
                                           kSequences * int64_t{sizeof(cuda::SequenceEntry<AttentionSequence>)}));
  memory.finish();
  DI_RETURN_IF_ERROR(memory.status());
  return records;
}

SparseAttention operation(const Records& records) {
  SparseAttention op;
  op.q = {records.q.as<bf16>(), kSequences, kHeads * kHeadDim};
  op.heads = kHeads;
  op.head_dim = kHeadDim;
  op.window_size = kWindow;
  op.step_records = {records.step.as<uint8_t>(), kSequences, kWindowBytes};
  op.selected = {records.selected.as<int32_t>(), kSequences, kTopK};
  op.sink = records.sink.as<float>();
  op.o = {records.o.as<bf16>(), kSequences, kHeads * kHeadDim};
  return op;
}

}  // namespace

Status bench_gpu_attention(std::span<const int64_t> rows_of_steps, double peak, double read, ResultSink sink) {
  cuda::DeviceMemory memory;
  DI_RETURN_IF_ERROR(memory.open(nullptr));
  DI_ASSIGN_OR_RETURN(const Records records, random_records(memory));
  using Entry = cuda::SequenceEntry<AttentionSequence>;
  for (const int64_t rows : rows_of_steps) {
    std::vector<Entry> entries;
    for (int64_t s = 0; s < kSequences; ++s) {
      AttentionSequence sequence;
      sequence.first_row = s;
      sequence.rows = 1;
      sequence.position = 2 * kContext;
      sequence.ring = {records.ring.data() + s * kRing * kWindowBytes, kRing, kWindowBytes};
      sequence.first_record = s;
      sequence.step_records = 1;
      sequence.step_position = sequence.position;
      constexpr int64_t kBlocks = kContext / kBlock;
      sequence.compressed = {records.blocks.as<std::byte*>() + s * kBlocks, kBlock, kRecordBytes, kBlocks};
      entries.push_back({sequence, s % rows});
    }
    memory.write(records.entries.data(), entries.data(), entries.size() * sizeof(Entry));
    memory.finish();
    DI_RETURN_IF_ERROR(memory.status());
    const int64_t steps = std::max<int64_t>(4, kSequences / rows);
    DI_ASSIGN_OR_RETURN(
        const cuda::Graph graph, cuda::Graph::capture([&](cuda::Stream stream) -> Status {
          for (int64_t step = 0; step < steps; ++step) {
            const cuda::SequenceList<AttentionSequence> list{
                records.entries.as<Entry>() + step % (kSequences / rows) * rows, static_cast<int>(rows), rows};
            DI_RETURN_IF_ERROR(
                cuda::sm90_attention(operation(records), list, kWindow + kTopK, cuda::attention_spread(rows), stream));
          }
          return {};
        }));
    DI_ASSIGN_OR_RETURN(const double seconds, graph.best_seconds(10, "sparse attention"));
    const double step = seconds / static_cast<double>(steps), bytes = static_cast<double>(rows) * kRowBytes;
    sink({.name = fmt::format("sparse attention, {} rows", rows),
          .value = static_cast<double>(rows) * kRowFlops / step / 1e12,
          .unit = "TFLOP/s",
          .limit = std::min(peak, kRowFlops / kRowBytes * read) / 1e12,
          .note = fmt::format("{:.2f} us, {:.1f} MB, {:.0f} GB/s", step * 1e6, bytes / 1e6, bytes / step / 1e9)});
  }
  return {};
}

}  // namespace deepinfer::bench
