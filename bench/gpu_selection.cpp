#include "bench/gpu_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <vector>

#include "backends/cuda/kernels/selection/selection.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/device_memory.h"
#include "backends/cuda/launch/graph.h"
#include "tensor/formats.h"

namespace deepinfer::bench {
namespace {

constexpr int kHeads = 32, kHeadDim = 128, kTopK = 512;  // of the released model
constexpr int64_t kRecordBytes = index_record_bytes(kHeadDim);
constexpr int64_t kKeys = int64_t{8} << 20, kBlock = 256, kMostRows = 256;
constexpr int64_t kScratch = int64_t{256} << 20;

struct Operands {
  cuda::DeviceBuffer keys, blocks, queries, weights, selected, scratch, entries;
};

std::vector<uint8_t> random_codes(std::mt19937_64& random, int64_t count) {
  std::vector<uint8_t> records(static_cast<size_t>(count * kRecordBytes));
  for (size_t i = 0; i < records.size(); ++i) {
    const auto code = static_cast<uint8_t>(random());
    records[i] = i % kRecordBytes < kHeadDim / 2 ? code : static_cast<uint8_t>(124 + code % 4);
  }
  return records;
}

Result<Operands> random_operands(cuda::DeviceMemory& memory) {
  std::mt19937_64 random(1);
  Operands operands;
  DI_ASSIGN_OR_RETURN(operands.keys, cuda::DeviceBuffer::allocate(kKeys * kRecordBytes));
  constexpr int64_t kPart = int64_t{1} << 20;  // keys that are repeated
  const std::vector<uint8_t> keys = random_codes(random, kPart);
  for (int64_t key = 0; key < kKeys; key += kPart)
    memory.write(operands.keys.data() + key * kRecordBytes, keys.data(), keys.size());
  std::vector<std::byte*> blocks;
  for (int64_t key = 0; key < kKeys; key += kBlock) blocks.push_back(operands.keys.data() + key * kRecordBytes);
  DI_ASSIGN_OR_RETURN(operands.blocks, cuda::DeviceBuffer::allocate(kKeys / kBlock * 8));
  memory.write(operands.blocks.data(), blocks.data(), blocks.size() * 8);
  const std::vector<uint8_t> queries = random_codes(random, kMostRows * kHeads);
  DI_ASSIGN_OR_RETURN(operands.queries, cuda::DeviceBuffer::allocate(static_cast<int64_t>(queries.size())));
  memory.write(operands.queries.data(), queries.data(), queries.size());
  std::normal_distribution<float> normal(0.5f, 1);
  std::vector<bf16> weights(static_cast<size_t>(kMostRows * kHeads));
  for (bf16& weight : weights) weight = to_bf16(normal(random));
  DI_ASSIGN_OR_RETURN(operands.weights, cuda::DeviceBuffer::allocate(static_cast<int64_t>(weights.size()) * 2));
  memory.write(operands.weights.data(), weights.data(), weights.size() * 2);
  DI_ASSIGN_OR_RETURN(operands.selected, cuda::DeviceBuffer::allocate(kMostRows * kTopK * 4));
  DI_ASSIGN_OR_RETURN(operands.scratch, cuda::DeviceBuffer::allocate(kScratch));
  DI_ASSIGN_OR_RETURN(operands.entries,
                      cuda::DeviceBuffer::allocate(4096 * int64_t{sizeof(cuda::SequenceEntry<IndexSequence>)}));
  memory.finish();
  DI_RETURN_IF_ERROR(memory.status());
  return operands;
}

cuda::SelectionStep selection(const Operands& operands, const SelectionShape& shape,
                              const cuda::SequenceList<IndexSequence>& list) {
  cuda::SelectionStep step;
  step.op.queries = {operands.queries.as<uint8_t>(), kMostRows, kHeads * kRecordBytes};
  step.op.weights = {operands.weights.as<bf16>(), kMostRows, kHeads};
  step.op.heads = kHeads;
  step.op.head_dim = kHeadDim;
  step.op.top_k = kTopK;
  step.op.selected = {operands.selected.as<int32_t>(), kMostRows, kTopK};
  step.list = list;
  step.count = shape.rows;
  step.visible = shape.keys;
  step.splits = cuda::sm90_index_splits(shape.keys, shape.rows);
  step.rows.keys = operands.scratch.as<uint64_t>();
  step.rows.most = kTopK;
  step.rows.counts = reinterpret_cast<int32_t*>(step.rows.keys + shape.rows * step.splits * kTopK);
  return step;
}

}  // namespace

Status bench_gpu_selection(std::span<const SelectionShape> shapes, double read, double peak, ResultSink sink) {
  cuda::DeviceMemory memory;
  DI_RETURN_IF_ERROR(memory.open(nullptr));
  DI_ASSIGN_OR_RETURN(const Operands operands, random_operands(memory));
  using Entry = cuda::SequenceEntry<IndexSequence>;
  for (const SelectionShape& shape : shapes) {
    const int64_t sequences = kKeys / shape.keys;
    const int64_t sets = std::clamp<int64_t>(sequences / shape.rows, 1, 4096 / shape.rows);
    const int64_t steps = std::clamp<int64_t>(sets, 4, 64);
    std::vector<Entry> entries;
    for (int64_t i = 0; i < sets * shape.rows; ++i) {
      IndexSequence sequence;
      sequence.first_row = i % shape.rows;
      sequence.rows = 1;
      sequence.position = shape.keys - 1;
      const int64_t blocks = shape.keys / kBlock;
      sequence.keys = {operands.blocks.as<std::byte*>() + i % sequences * blocks, kBlock, kRecordBytes, blocks};
      entries.push_back({sequence, i % shape.rows});
    }
    memory.write(operands.entries.data(), entries.data(), entries.size() * sizeof(Entry));
    memory.finish();
    DI_RETURN_IF_ERROR(memory.status());
    DI_ASSIGN_OR_RETURN(
        const cuda::Graph graph, cuda::Graph::capture([&](cuda::Stream stream) -> Status {
          for (int64_t s = 0; s < steps; ++s) {
            const cuda::SelectionStep step = selection(
                operands, shape,
                {operands.entries.as<Entry>() + s % sets * shape.rows, static_cast<int>(shape.rows), shape.rows});
            DI_RETURN_IF_ERROR(cuda::sm90_index_scores(step, stream));
            DI_RETURN_IF_ERROR(cuda::sm90_index_best(step, stream));
          }
          return {};
        }));
    DI_ASSIGN_OR_RETURN(const double seconds, graph.best_seconds(10, "index selection"));
    const double step = seconds / static_cast<double>(steps), keys = static_cast<double>(shape.rows * shape.keys);
    const double limit = std::max(keys * kRecordBytes / read, keys * 2 * kHeads * kHeadDim / peak);
    sink({.name = fmt::format("index selection, {} rows of {} keys", shape.rows, shape.keys),
          .value = keys * kRecordBytes / step / 1e9,
          .unit = "GB/s",
          .limit = keys * kRecordBytes / limit / 1e9,
          .note = fmt::format("{:.2f} us, {:.1f} MB", step * 1e6, keys * kRecordBytes / 1e6)});
  }
  return {};
}

}  // namespace deepinfer::bench
