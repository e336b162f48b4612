#include "bench/gpu_dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/kernels/products/sm90_products.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/device_memory.h"
#include "backends/cuda/launch/graph.h"

namespace deepinfer::bench {
namespace {

using Format = LinearWeight::Format;

struct Shape {
  const char* name;
  int64_t n, k;
  int groups = 1;
  Format format = Format::kFp8;
};
// Of a layer of the released model.
constexpr std::array kLayer = {Shape{"wq_a", 1280, 5120},       Shape{"wkv", 512, 5120},
                               Shape{"wq_b", 32768, 1280},      Shape{"wo_a", 8192, 4096, 8},
                               Shape{"wo_b", 5120, 8192},       Shape{"shared up", 4608, 5120},
                               Shape{"shared down", 5120, 2304}};
constexpr std::array kOthers = {Shape{"gate", 384, 5120, 1, Format::kBf16}};
constexpr Shape kHead = {"head", 129280, 5120, 1, Format::kBf16};
constexpr int64_t kFewRows = 32;
constexpr int64_t kWidest = 32768;  // x and y
constexpr uint8_t kScale = 120;     // 2^-7

int64_t weight_bytes(const Shape& shape) {
  return shape.format == Format::kFp8 ? shape.n * shape.k + shape.n * shape.k / 1024 : shape.n * shape.k * 2;
}

struct Memory {
  cuda::DeviceBuffer weights, scales, x, y, image, sums;
};

cuda::Product product(const Memory& memory, int64_t rows, const Shape& shape, int64_t offset) {
  cuda::Product p;
  p.x = {memory.x.as<bf16>(), rows, shape.groups * shape.k};
  p.weight = {shape.format, shape.n, shape.k, memory.weights.as<uint8_t>() + offset,
              memory.scales.as<uint8_t>() + offset / 1024};
  p.groups = shape.groups;
  p.y = {memory.y.as<bf16>(), rows, shape.n};
  return p;
}

}  // namespace

Status bench_gpu_dense(int64_t rows, const GpuLimits& limits, ResultSink sink) {
  DI_ASSIGN_OR_RETURN(const cuda::Device device, cuda::current_device());
  int64_t layer_bytes = 0;
  for (const Shape& shape : kLayer) layer_bytes += weight_bytes(shape);
  const bool few = rows <= kFewRows;
  const int64_t room = std::max({4 * device.l2_bytes + 2 * layer_bytes, 3 * layer_bytes, weight_bytes(kHead)});
  Memory memory;
  DI_ASSIGN_OR_RETURN(memory.weights, cuda::DeviceBuffer::allocate(room));
  DI_ASSIGN_OR_RETURN(memory.scales, cuda::DeviceBuffer::allocate(room / 1024 + 1));
  DI_ASSIGN_OR_RETURN(memory.x, cuda::DeviceBuffer::allocate(rows * kWidest * 2));
  DI_ASSIGN_OR_RETURN(memory.y, cuda::DeviceBuffer::allocate(rows * std::max(kWidest, few ? kHead.n : 0) * 2));
  DI_ASSIGN_OR_RETURN(memory.image, cuda::DeviceBuffer::allocate(cuda::product_scratch_bytes(rows, kWidest)));
  DI_ASSIGN_OR_RETURN(memory.sums, cuda::DeviceBuffer::allocate(cuda::kProductSumBytes));
  const cuda::ProductScratch scratch{memory.image.data(), memory.image.bytes(), memory.sums.as<float>(),
                                     memory.sums.bytes()};
  DI_RETURN_IF_ERROR(cuda::fill_random(memory.weights));
  DI_RETURN_IF_ERROR(cuda::fill_random(memory.x));
  cuda::DeviceMemory writer;
  DI_RETURN_IF_ERROR(writer.open(nullptr));
  const std::vector<uint8_t> scales(static_cast<size_t>(memory.scales.bytes()), kScale);
  writer.write(memory.scales.data(), scales.data(), scales.size());
  writer.finish();
  DI_RETURN_IF_ERROR(writer.status());
  // Runs one shape after the other through the whole memory; the time of a round of `shapes`.
  const auto measure = [&](std::string name, std::span<const Shape> shapes) -> Status {
    int64_t bytes = 0;
    double operations = 0;
    for (const Shape& shape : shapes) {
      bytes += weight_bytes(shape);
      operations += 2.0 * static_cast<double>(rows * shape.n * shape.k);
    }
    const int64_t rounds = few ? std::max<int64_t>(2, 4 * device.l2_bytes / bytes + 1) : 2;
    DI_ASSIGN_OR_RETURN(const cuda::Graph graph, cuda::Graph::capture([&](cuda::Stream stream) -> Status {
                          int64_t offset = 0;
                          for (int64_t round = 0; round < rounds; ++round)
                            for (const Shape& shape : shapes) {
                              if (offset + weight_bytes(shape) > room) offset = 0;
                              DI_RETURN_IF_ERROR(cuda::sm90_product(product(memory, rows, shape, offset), scratch, stream));
                              offset += (weight_bytes(shape) + 1023) / 1024 * 1024;
                            }
                          return {};
                        }));
    DI_ASSIGN_OR_RETURN(const double seconds, graph.best_seconds(few ? 20 : 5, name));
    const double round = seconds / static_cast<double>(rounds);
    sink({.name = fmt::format("{}, {} rows", name, rows),
          .value = few ? static_cast<double>(bytes) / round / 1e9 : operations / round / 1e12,
          .unit = few ? "GB/s" : "TFLOP/s",
          .limit = few ? limits.read / 1e9 : limits.multiply / 1e12,
          .note = fmt::format("{:.2f} us, {:.1f} MB", round * 1e6, static_cast<double>(bytes) / 1e6)});
    return {};
  };
  const auto measure_one = [&](const Shape& shape) {
    return measure(fmt::format("{} [{}, {}]", shape.name, shape.n, shape.k), std::span(&shape, 1));
  };
  for (const Shape& shape : kLayer) DI_RETURN_IF_ERROR(measure_one(shape));
  for (const Shape& shape : kOthers) DI_RETURN_IF_ERROR(measure_one(shape));
  if (few) DI_RETURN_IF_ERROR(measure_one(kHead));
  return measure("dense weights of a layer", kLayer);
}

}  // namespace deepinfer::bench
