#include "bench/gpu_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/kernels/experts/sm90_experts.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/device_memory.h"
#include "backends/cuda/launch/graph.h"

namespace deepinfer::bench {
namespace {

constexpr int64_t kHidden = 5120, kWidth = 2304;  // of the released model
constexpr int kExperts = 384, kTopK = 6;
constexpr int64_t kHeavyRows = 9;
constexpr int kLayers = 8;  // of a graph: the shared experts alone are more than four L2s

constexpr int64_t kWeights = kHidden * kWidth;  // of one matrix
constexpr int64_t kRoutedBytes = 3 * (kWeights / 2 + kWeights / 32);
constexpr int64_t kSharedBytes = 3 * (kWeights + kWeights / 1024);

// All experts that layers choose from, and each layer's shared one.
struct Weights {
  cuda::DeviceBuffer routed, shared, table;
  std::vector<cuda::ExpertPointers> of_shared;
};

cuda::ExpertPointers pointers(const uint8_t* base, int64_t weight_bytes, int64_t scale_bytes) {
  const uint8_t* const scales = base + 3 * weight_bytes;
  return {base, scales, base + weight_bytes, scales + scale_bytes, base + 2 * weight_bytes, scales + 2 * scale_bytes};
}

Result<Weights> random_weights(cuda::DeviceMemory& memory, std::mt19937_64& random) {
  Weights weights;
  DI_ASSIGN_OR_RETURN(weights.routed, cuda::DeviceBuffer::allocate(kExperts * kRoutedBytes));
  DI_ASSIGN_OR_RETURN(weights.shared, cuda::DeviceBuffer::allocate(kLayers * kSharedBytes));
  DI_ASSIGN_OR_RETURN(weights.table, cuda::DeviceBuffer::allocate(kExperts * int64_t{sizeof(cuda::ExpertPointers)}));
  DI_RETURN_IF_ERROR(cuda::fill_random(weights.routed));
  DI_RETURN_IF_ERROR(cuda::fill_random(weights.shared));
  // Scales as weights have them: 2^-9 to 2^-2.
  std::vector<uint8_t> scales(static_cast<size_t>(3 * kWeights / 32));
  for (uint8_t& scale : scales) scale = static_cast<uint8_t>(118 + random() % 8);
  std::vector<cuda::ExpertPointers> table;
  for (int e = 0; e < kExperts; ++e) {
    auto* const base = weights.routed.as<uint8_t>() + e * kRoutedBytes;
    memory.write(base + 3 * kWeights / 2, scales.data(), scales.size());
    table.push_back(pointers(base, kWeights / 2, kWeights / 32));
  }
  for (int layer = 0; layer < kLayers; ++layer) {
    auto* const base = weights.shared.as<uint8_t>() + layer * kSharedBytes;
    memory.write(base + 3 * kWeights, scales.data(), static_cast<size_t>(3 * kWeights / 1024));
    weights.of_shared.push_back(pointers(base, kWeights, kWeights / 1024));
  }
  memory.write(weights.table.data(), table.data(), table.size() * sizeof(cuda::ExpertPointers));
  memory.finish();
  DI_RETURN_IF_ERROR(memory.status());
  return weights;
}

// Activations, choices and results of a step of each layer.
struct Steps {
  cuda::DeviceBuffer x, expert, weight, hidden, outputs, y;
  cuda::DeviceBuffer counts, tile_list, choice, x_image, hidden_image;

  cuda::ExpertTiles tiles() const {
    return {counts.as<cuda::ExpertTileCounts>(), tile_list.as<cuda::ExpertTile>(), choice.as<int32_t>(), x_image.data(),
            hidden_image.data()};
  }
  std::vector<int> distinct;  // experts by layer
};

// choosable: of all experts, other ones for each layer; as few as 60 make a batch whose rows agree.
Result<Steps> random_steps(cuda::DeviceMemory& memory, std::mt19937_64& random, int64_t rows,
                           int choosable = kExperts) {
  Steps steps;
  DI_ASSIGN_OR_RETURN(steps.x, cuda::DeviceBuffer::allocate(rows * kHidden * 2));
  DI_ASSIGN_OR_RETURN(steps.expert, cuda::DeviceBuffer::allocate(kLayers * rows * kTopK * 4));
  DI_ASSIGN_OR_RETURN(steps.weight, cuda::DeviceBuffer::allocate(kLayers * rows * kTopK * 4));
  DI_ASSIGN_OR_RETURN(steps.hidden, cuda::DeviceBuffer::allocate(rows * (kTopK + 1) * kWidth * 4));
  DI_ASSIGN_OR_RETURN(steps.outputs, cuda::DeviceBuffer::allocate(rows * (kTopK + 1) * kHidden * 2));
  DI_ASSIGN_OR_RETURN(steps.y, cuda::DeviceBuffer::allocate(rows * kHidden * 2));
  const int64_t slots = cuda::expert_most_groups(rows, kTopK, kExperts) * 8;
  DI_ASSIGN_OR_RETURN(steps.counts, cuda::DeviceBuffer::allocate(sizeof(cuda::ExpertTileCounts)));
  DI_ASSIGN_OR_RETURN(steps.tile_list, cuda::DeviceBuffer::allocate(cuda::expert_most_tiles(rows, kTopK, kExperts) *
                                                                    int64_t{sizeof(cuda::ExpertTile)}));
  DI_ASSIGN_OR_RETURN(steps.choice, cuda::DeviceBuffer::allocate(slots * 4));
  DI_ASSIGN_OR_RETURN(steps.x_image, cuda::DeviceBuffer::allocate(slots * kHidden * 2));
  DI_ASSIGN_OR_RETURN(steps.hidden_image, cuda::DeviceBuffer::allocate(slots * kWidth * 2));
  std::normal_distribution<float> normal;
  std::vector<bf16> x(static_cast<size_t>(rows * kHidden));
  for (bf16& value : x) value = to_bf16(normal(random));
  std::vector<int32_t> order(kExperts), expert;
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> weight;
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<bool> chosen(kExperts);
    if (layer == 0 || choosable == kExperts) std::shuffle(order.begin(), order.end(), random);
    // The next layer's are other ones while there are enough, so that no cache holds them.
    std::rotate(order.begin(), order.begin() + choosable % kExperts, order.end());
    for (int64_t row = 0; row < rows; ++row) {
      std::shuffle(order.begin(), order.begin() + choosable, random);
      for (int k = 0; k < kTopK; ++k) {
        expert.push_back(order[static_cast<size_t>(k)]);
        chosen[static_cast<size_t>(expert.back())] = true;
        weight.push_back(0.25f);
      }
    }
    steps.distinct.push_back(static_cast<int>(std::count(chosen.begin(), chosen.end(), true)));
  }
  memory.write(steps.x.data(), x.data(), x.size() * 2);
  memory.write(steps.expert.data(), expert.data(), expert.size() * 4);
  memory.write(steps.weight.data(), weight.data(), weight.size() * 4);
  memory.finish();
  DI_RETURN_IF_ERROR(memory.status());
  return steps;
}

cuda::Experts step_of(const Weights& weights, const Steps& steps, int64_t rows, int layer, int64_t heavy_rows) {
  cuda::Experts experts;
  experts.x = {steps.x.as<bf16>(), rows, kHidden};
  experts.expert = {steps.expert.as<int32_t>() + layer * rows * kTopK, rows, kTopK};
  experts.weight = {steps.weight.as<float>() + layer * rows * kTopK, rows, kTopK};
  experts.experts = weights.table.as<cuda::ExpertPointers>();
  experts.expert_count = kExperts;
  experts.shared = weights.of_shared[static_cast<size_t>(layer)];
  experts.width = kWidth;
  experts.limit = 10;
  experts.heavy_rows = heavy_rows;
  experts.hidden = steps.hidden.as<float>();
  experts.outputs = steps.outputs.as<bf16>();
  experts.y = {steps.y.as<bf16>(), rows, kHidden};
  return experts;
}

}  // namespace

Status bench_gpu_experts_decode(std::span<const DecodeStep> decode_steps, double read, ResultSink sink) {
  std::mt19937_64 random(1);
  cuda::DeviceMemory memory;
  DI_RETURN_IF_ERROR(memory.open(nullptr));
  DI_ASSIGN_OR_RETURN(const Weights weights, random_weights(memory, random));
  for (const auto& [rows, choosable] : decode_steps) {
    DI_ASSIGN_OR_RETURN(const Steps steps, random_steps(memory, random, rows, choosable));
    const int64_t distinct = std::accumulate(steps.distinct.begin(), steps.distinct.end(), int64_t{0});
    // hidden: of the bytes of w1 and w3, two thirds; output: of w2.
    const auto measure = [&](const char* name, double share, bool hidden, bool output) -> Status {
      DI_ASSIGN_OR_RETURN(const cuda::Graph graph, cuda::Graph::capture([&](cuda::Stream stream) -> Status {
                            for (int layer = 0; layer < kLayers; ++layer) {
                              const cuda::Experts experts = step_of(weights, steps, rows, layer, kHeavyRows);
                              if (hidden) DI_RETURN_IF_ERROR(cuda::sm90_expert_hidden_few(experts, stream));
                              if (output) DI_RETURN_IF_ERROR(cuda::sm90_expert_output_few(experts, stream));
                              if (hidden && output && rows >= kHeavyRows) {
                                DI_RETURN_IF_ERROR(cuda::sm90_list_expert_tiles(experts, steps.tiles(), stream));
                                DI_RETURN_IF_ERROR(cuda::sm90_expert_hidden_many(experts, steps.tiles(), stream));
                                DI_RETURN_IF_ERROR(cuda::sm90_expert_output_many(experts, steps.tiles(), stream));
                              }
                              if (hidden && output) DI_RETURN_IF_ERROR(cuda::sm90_combine_experts(experts, stream));
                            }
                            return {};
                          }));
      DI_ASSIGN_OR_RETURN(const double seconds, graph.best_seconds(10, name));
      // The shared expert of more rows belongs to the kernels for many.
      const bool with_shared = (hidden && output) || rows < kHeavyRows;
      const double bytes =
          share * static_cast<double>(distinct * kRoutedBytes + (with_shared ? kLayers * kSharedBytes : 0));
      sink({.name = fmt::format("{}, {} rows{}", name, rows, choosable < kExperts ? " that agree" : ""),
            .value = bytes / seconds / 1e9,
            .unit = "GB/s",
            .limit = read / 1e9,
            .note = fmt::format("{:.2f} us, {:.1f} MB, {:.1f} experts", seconds / kLayers * 1e6, bytes / kLayers / 1e6,
                                static_cast<double>(distinct) / kLayers)});
      return {};
    };
    DI_RETURN_IF_ERROR(measure("experts, gate and up", 2.0 / 3, true, false));
    DI_RETURN_IF_ERROR(measure("experts, down", 1.0 / 3, false, true));
    DI_RETURN_IF_ERROR(measure("experts", 1, true, true));
  }
  return {};
}

Status bench_gpu_experts_prefill(std::span<const int64_t> rows_of_steps, double peak, ResultSink sink) {
  std::mt19937_64 random(1);
  cuda::DeviceMemory memory;
  DI_RETURN_IF_ERROR(memory.open(nullptr));
  DI_ASSIGN_OR_RETURN(const Weights weights, random_weights(memory, random));
  for (const int64_t rows : rows_of_steps) {
    DI_ASSIGN_OR_RETURN(const Steps steps, random_steps(memory, random, rows));
    const cuda::ExpertTiles tiles = steps.tiles();
    constexpr int kPrefillLayers = 2;
    const double products = 2.0 * static_cast<double>(rows * (kTopK + 1) * kWeights);  // of one matrix
    const auto measure = [&](const char* name, double flops, int first, int last) -> Status {
      DI_ASSIGN_OR_RETURN(const cuda::Graph graph, cuda::Graph::capture([&](cuda::Stream stream) -> Status {
                            for (int layer = 0; layer < kPrefillLayers; ++layer) {
                              const cuda::Experts experts = step_of(weights, steps, rows, layer, 0);
                              for (int step = first; step <= last; ++step) {
                                switch (step) {
                                  case 0:
                                    DI_RETURN_IF_ERROR(cuda::sm90_list_expert_tiles(experts, tiles, stream));
                                    break;
                                  case 1:
                                    DI_RETURN_IF_ERROR(cuda::sm90_expert_hidden_many(experts, tiles, stream));
                                    break;
                                  case 2:
                                    DI_RETURN_IF_ERROR(cuda::sm90_expert_output_many(experts, tiles, stream));
                                    break;
                                  default:
                                    DI_RETURN_IF_ERROR(cuda::sm90_combine_experts(experts, stream));
                                }
                              }
                            }
                            return {};
                          }));
      DI_ASSIGN_OR_RETURN(const double seconds, graph.best_seconds(5, name));
      sink({.name = fmt::format("{}, {} rows", name, rows),
            .value = flops / seconds * kPrefillLayers / 1e12,
            .unit = "TFLOP/s",
            .limit = peak / 1e12,
            .note = fmt::format("{:.1f} us", seconds / kPrefillLayers * 1e6)});
      return {};
    };
    DI_RETURN_IF_ERROR(measure("experts, all", 3 * products, 0, 3));
    DI_RETURN_IF_ERROR(measure("experts, gate and up", 2 * products, 1, 1));
    DI_RETURN_IF_ERROR(measure("experts, down", products, 2, 2));
    DI_RETURN_IF_ERROR(measure("experts, list and gather", 0, 0, 0));
  }
  return {};
}

}  // namespace deepinfer::bench
