#include "bench/gpu_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/kernels/records/records.h"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/device_memory.h"
#include "backends/cuda/launch/graph.h"
#include "base/function_ref.h"
#include "tensor/formats.h"

namespace deepinfer::bench {
namespace {

constexpr int64_t kHidden = 5120, kLatent = 1280, kHeadDim = 512, kHeads = 64, kGroups = 8192, kPairs = 32;
constexpr int64_t kMixes = 2 * kHyperCopies + kHyperCopies * kHyperCopies;
constexpr int64_t kNodes = 200;

// What kernels work on: values around 1, so that they take the ways that they take in a model.
class Operands {
 public:
  Status open() { return memory_.open({}); }

  template <typename T>
  Result<MatrixView<T>> matrix(int64_t rows, int64_t columns) {
    DI_ASSIGN_OR_RETURN(cuda::DeviceBuffer buffer,
                        cuda::DeviceBuffer::allocate(rows * columns * static_cast<int64_t>(sizeof(T))));
    buffers_.push_back(std::move(buffer));
    const MatrixView<T> made(buffers_.back().as<T>(), rows, columns);
    std::vector<T> values(static_cast<size_t>(std::min(rows * columns, int64_t{1} << 18)));
    for (T& value : values) value = next<T>();
    for (int64_t at = 0; at < rows * columns; at += static_cast<int64_t>(values.size())) {
      const auto count = std::min<size_t>(values.size(), static_cast<size_t>(rows * columns - at));
      memory_.write(made.data + at, values.data(), count * sizeof(T));
    }
    return made;
  }
  Status finish() {
    memory_.finish();
    return memory_.status();
  }

 private:
  template <typename T>
  T next() {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    const auto top = static_cast<float>(random_ >> 40) * 0x1p-23f - 1;
    if constexpr (std::is_same_v<T, bf16>) return to_bf16(top);
    if constexpr (std::is_same_v<T, float>) return top;
    return static_cast<T>(random_ >> 48);
  }

  cuda::DeviceMemory memory_;
  std::vector<cuda::DeviceBuffer> buffers_;
  uint64_t random_ = 1;
};

}  // namespace

Status bench_gpu_rows(int64_t rows, double read, ResultSink sink) {
  DI_ASSIGN_OR_RETURN(const cuda::Device device, cuda::current_device());
  Operands operands;
  DI_RETURN_IF_ERROR(operands.open());
  // Weights of so many sites that none is in the second-level cache when its turn comes again.
  const int64_t fn_bytes = kMixes * kHyperCopies * kHidden * 4, sites = 4 * device.l2_bytes / fn_bytes + 1;
  DI_ASSIGN_OR_RETURN(const auto streams, operands.matrix<bf16>(rows, kHyperCopies * kHidden));
  DI_ASSIGN_OR_RETURN(const auto fn, operands.matrix<float>(sites * kMixes, kHyperCopies * kHidden));
  DI_ASSIGN_OR_RETURN(const auto base, operands.matrix<float>(1, kMixes));
  DI_ASSIGN_OR_RETURN(const auto pre, operands.matrix<float>(rows, kHyperCopies));
  DI_ASSIGN_OR_RETURN(const auto post, operands.matrix<float>(rows, kHyperCopies));
  DI_ASSIGN_OR_RETURN(const auto comb, operands.matrix<float>(rows, kHyperCopies * kHyperCopies));
  DI_ASSIGN_OR_RETURN(const auto parts, operands.matrix<float>(1, cuda::mix_part_floats(rows, kHyperCopies * kHidden)));
  DI_ASSIGN_OR_RETURN(const auto counters, operands.matrix<int32_t>(1, cuda::kMixCounters));
  DI_ASSIGN_OR_RETURN(const auto y, operands.matrix<bf16>(rows, kHidden));
  DI_ASSIGN_OR_RETURN(const auto norm, operands.matrix<bf16>(1, kGroups));
  DI_ASSIGN_OR_RETURN(const auto x, operands.matrix<bf16>(rows, kHidden));
  DI_ASSIGN_OR_RETURN(const auto quantized, operands.matrix<bf16>(rows, kHidden));
  DI_ASSIGN_OR_RETURN(const auto latent, operands.matrix<bf16>(rows, kLatent));
  DI_ASSIGN_OR_RETURN(const auto groups, operands.matrix<bf16>(rows, kGroups));
  DI_ASSIGN_OR_RETURN(const auto heads, operands.matrix<bf16>(rows, kHeads * kHeadDim));
  DI_ASSIGN_OR_RETURN(const auto kv, operands.matrix<bf16>(rows, kHeadDim));
  DI_ASSIGN_OR_RETURN(const auto records, operands.matrix<uint8_t>(rows, fp8_record_bytes(kHeadDim)));
  DI_ASSIGN_OR_RETURN(const auto position, operands.matrix<int64_t>(rows, 1));
  DI_ASSIGN_OR_RETURN(const auto frequencies, operands.matrix<float>(1, kPairs));
  DI_RETURN_IF_ERROR(operands.finish());
  {
    cuda::DeviceMemory memory;
    DI_RETURN_IF_ERROR(memory.open({}));
    memory.discard(reinterpret_cast<std::byte*>(counters.data), cuda::kMixCounters * 4);
    memory.finish();
    DI_RETURN_IF_ERROR(memory.status());
  }

  const auto measure = [&](std::string_view name, int64_t bytes,
                           FunctionRef<Status(int64_t, cuda::Stream)> step) -> Status {
    const int64_t nodes = rows > 256 ? kNodes / 10 : kNodes;
    DI_ASSIGN_OR_RETURN(const cuda::Graph graph, cuda::Graph::capture([&](cuda::Stream stream) -> Status {
                          for (int64_t i = 0; i < nodes; ++i) DI_RETURN_IF_ERROR(step(i, stream));
                          return {};
                        }));
    DI_ASSIGN_OR_RETURN(const double seconds, graph.best_seconds(20, name));
    sink({.name = fmt::format("{}, {} rows", name, rows),
          .value = seconds / static_cast<double>(nodes) * 1e6,
          .unit = "us",
          .limit = static_cast<double>(bytes) / read * 1e6,
          .note = fmt::format("{:.3f} MB, graph of {}", static_cast<double>(bytes) / 1e6, nodes)});
    return {};
  };
  const int64_t row_bytes = rows * kHidden * 2;
  const HyperConnectionCollapse next{streams, pre, norm.data, 1e-6f, x, quantized};
  const auto expand = [&](int64_t, cuda::Stream stream) {
    return cuda::any_hyper_connection_expand({y, post, comb, streams, next}, stream);
  };
  const auto mix = [&](int64_t i, cuda::Stream stream) {
    const HyperConnectionWeights weights{.fn = fn.row(i % sites * kMixes), .base = base.data, .scale = base.data};
    return cuda::any_hyper_connection_mix({streams, weights, pre, post, comb}, {parts.data, counters.data}, stream);
  };
  DI_RETURN_IF_ERROR(measure("site: coefficients", fn_bytes + 4 * row_bytes, mix));
  DI_RETURN_IF_ERROR(measure("site: streams and next input", 11 * row_bytes, expand));
  DI_RETURN_IF_ERROR(measure("site: both", fn_bytes + 15 * row_bytes, [&](int64_t i, cuda::Stream stream) -> Status {
    DI_RETURN_IF_ERROR(mix(i, stream));
    return expand(i, stream);
  }));
  DI_RETURN_IF_ERROR(measure("sublayer input", 6 * row_bytes, [&](int64_t, cuda::Stream stream) {
    return cuda::any_hyper_connection_collapse(next, stream);
  }));
  DI_RETURN_IF_ERROR(measure("norm and rounding [1280]", rows * kLatent * 4, [&](int64_t, cuda::Stream stream) {
    return cuda::any_rms_norm({latent, norm.data, 1e-6f, latent, true}, stream);
  }));
  DI_RETURN_IF_ERROR(measure("rounding [8192]", rows * kGroups * 4, [&](int64_t, cuda::Stream stream) {
    return cuda::any_quantize_activation({groups, groups}, stream);
  }));
  const RopeTable table{frequencies.data, static_cast<int>(kPairs)};
  DI_RETURN_IF_ERROR(measure("rotation of 64 heads", rows * kHeads * kPairs * 2 * 4, [&](int64_t, cuda::Stream stream) {
    return cuda::any_rope({heads, position.data, static_cast<int>(kHeads), static_cast<int>(kHeadDim), table, false},
                          stream);
  }));
  return measure("window records", rows * (kHeadDim * 2 + fp8_record_bytes(kHeadDim)),
                 [&](int64_t, cuda::Stream stream) {
                   return cuda::any_make_window_records({kv, norm.data, 1e-6f, position.data, table, records}, stream);
                 });
}

}  // namespace deepinfer::bench
