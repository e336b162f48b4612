#include "bench/gpu_dense.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/kernels/dense/dense.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/graph.h"
#include "backends/cuda/layout/strip_order.h"

namespace deepinfer::bench {
namespace {

struct Shape {
  const char* name;
  int64_t n, k;
};
// Of a layer of the released model; wo_a is block-diagonal there, with the same bytes.
constexpr std::array kLayer = {Shape{"wq_a", 1280, 5120},       Shape{"wkv", 512, 5120},
                               Shape{"wq_b", 32768, 1280},      Shape{"wo_a", 8192, 4096},
                               Shape{"wo_b", 5120, 8192},       Shape{"shared up", 4608, 5120},
                               Shape{"shared down", 5120, 2304}};
constexpr int64_t kWidest = 32768;

int64_t weight_bytes(const Shape& shape) {
  return cuda::strip_order_bytes(shape.n, shape.k) + cuda::strip_order_scales(shape.n, shape.k);
}

struct Memory {
  cuda::DeviceBuffer weights, x, y;
};

cuda::DenseProduct product(const Memory& memory, int64_t rows, const Shape& shape, int64_t offset) {
  cuda::DenseProduct p;
  p.x = memory.x.as<bf16>();
  p.rows = rows;
  p.x_stride = shape.k;
  p.weight.data = memory.weights.as<uint8_t>() + offset;
  p.weight.scales = p.weight.data + cuda::strip_order_bytes(shape.n, shape.k);
  p.weight.n = shape.n;
  p.weight.k = shape.k;
  p.y32 = memory.y.as<float>();
  p.y_stride = shape.n;
  return p;
}

}  // namespace

Status bench_gpu_dense(int64_t rows, double read, ResultSink sink) {
  DI_ASSIGN_OR_RETURN(const cuda::Device device, cuda::current_device());
  int64_t layer_bytes = 0;
  for (const Shape& shape : kLayer) layer_bytes += weight_bytes(shape);
  const int64_t room = std::max(4 * device.l2_bytes, layer_bytes) + 2 * layer_bytes;
  Memory memory;
  DI_ASSIGN_OR_RETURN(memory.weights, cuda::DeviceBuffer::allocate(room));
  DI_ASSIGN_OR_RETURN(memory.x, cuda::DeviceBuffer::allocate(rows * kWidest * 2));
  DI_ASSIGN_OR_RETURN(memory.y, cuda::DeviceBuffer::allocate(rows * kWidest * 4));
  DI_RETURN_IF_ERROR(cuda::fill_random(memory.weights));
  DI_RETURN_IF_ERROR(cuda::fill_random(memory.x));
  // Runs one shape after the other through the whole memory; the time of a round of `shapes`.
  const auto measure = [&](std::string name, std::span<const Shape> shapes) -> Status {
    int64_t bytes = 0;
    for (const Shape& shape : shapes) bytes += weight_bytes(shape);
    const int64_t rounds = std::max<int64_t>(2, 4 * device.l2_bytes / bytes + 1);
    DI_ASSIGN_OR_RETURN(const cuda::Graph graph, cuda::Graph::capture([&](cuda::Stream stream) -> Status {
                          int64_t offset = 0;
                          for (int64_t round = 0; round < rounds; ++round)
                            for (const Shape& shape : shapes) {
                              if (offset + weight_bytes(shape) > room) offset = 0;
                              DI_RETURN_IF_ERROR(cuda::sm90_dense_decode(product(memory, rows, shape, offset), stream));
                              offset += (weight_bytes(shape) + 255) / 256 * 256;
                            }
                          return {};
                        }));
    DI_ASSIGN_OR_RETURN(const double seconds, graph.best_seconds(20, name));
    const double round = seconds / static_cast<double>(rounds);
    sink({.name = fmt::format("{}, {} rows", name, rows),
          .value = static_cast<double>(bytes) / round / 1e9,
          .unit = "GB/s",
          .limit = read / 1e9,
          .note = fmt::format("{:.2f} us, {:.1f} MB", round * 1e6, static_cast<double>(bytes) / 1e6)});
    return {};
  };
  for (const Shape& shape : kLayer)
    DI_RETURN_IF_ERROR(measure(fmt::format("{} [{}, {}]", shape.name, shape.n, shape.k), std::span(&shape, 1)));
  return measure("dense weights of a layer", kLayer);
}

}  // namespace deepinfer::bench
