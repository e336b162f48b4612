// Tensor cores on operands that lie in shared memory: the ceiling of everything that multiplies.
#include <algorithm>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/ceilings/random_words.cuh"
#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/device/wgmma.cuh"
#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/timed_launches.h"

namespace deepinfer::cuda {
namespace {

constexpr int kGroups = 2;  // warpgroups of a block, each 64 rows
constexpr int kColumns = 256;
constexpr int kStages = 3;        // tiles of 128 bytes along K that take turns
constexpr int kSteps = 4;         // instructions along a tile, 32 bytes each
constexpr int kRowBytes = 128;    // of a tile
constexpr int kTileBytes = (kGroups * 64 + kColumns) * kRowBytes;

// A word of operands between 1/4 and 1/2 in size, of either sign, so that no sum overflows.
template <MatrixKind Kind>
__device__ uint32_t operands(uint64_t index) {
  const uint32_t bits = hashed(index);
  if constexpr (Kind == MatrixKind::kBf16) return (bits & 0x80ff80ff) | 0x3e803e80;
  return (bits & 0x8f8f8f8f) | 0x28282828;
}

template <MatrixKind Kind>
__global__ void __launch_bounds__(kGroups * 128, 1) multiply(int rounds, float* sink) {
  extern __shared__ __align__(1024) uint32_t tiles[];
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * kStages * kTileBytes / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kStages * kTileBytes / 4; i += kGroups * 128)
    tiles[i] = operands<Kind>(first + static_cast<uint64_t>(i));
  fence_async_proxy();
  __syncthreads();

  using Instruction = std::conditional_t<Kind == MatrixKind::kBf16, WgmmaBf16<kColumns>, WgmmaE4m3<kColumns>>;
  const uint32_t base = shared_address(tiles);
  const uint32_t group = threadIdx.x / 128;
  float d[kColumns / 2] = {};
  for (int round = 0; round < rounds; ++round) {
    wgmma_fence();
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      const uint32_t b = base + stage * kTileBytes;
      const uint32_t a = b + kColumns * kRowBytes + group * 64 * kRowBytes;
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        Instruction::multiply(d, swizzled_descriptor(a + step * 32), swizzled_descriptor(b + step * 32), true);
    }
    wgmma_commit();
    wgmma_wait<0>();
  }
  float sum = 0;
  for (const float x : d) sum += x;
  if (sum == 12345.678f) *sink = sum;  // keeps the products
}

template <MatrixKind Kind>
Result<double> measure(int multiprocessors, float* sink) {
  constexpr int kShared = kStages * kTileBytes;
  constexpr int kRounds = 12000;
  DI_RETURN_IF_ERROR(cuda_status(
      cudaFuncSetAttribute(multiply<Kind>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "multiply"));
  DI_ASSIGN_OR_RETURN(const double seconds, best_seconds(nullptr, 5, "multiply", [&] {
                        multiply<Kind><<<multiprocessors, kGroups * 128, kShared>>>(kRounds, sink);
                      }));
  const double k = Kind == MatrixKind::kBf16 ? 16 : 32;  // of an instruction
  return 2.0 * 64 * kColumns * k * kSteps * kStages * kRounds * kGroups * multiprocessors / seconds;
}

}  // namespace

Result<double> measure_matrix_peak(MatrixKind kind) {
  DI_ASSIGN_OR_RETURN(const Device device, current_device());
  if (device.capability != 90) return unsupported("the matrix peak is measured on compute capability 9.0 only");
  DI_ASSIGN_OR_RETURN(const DeviceBuffer sink, DeviceBuffer::allocate(sizeof(float)));
  return kind == MatrixKind::kBf16 ? measure<MatrixKind::kBf16>(device.multiprocessors, sink.as<float>())
                                   : measure<MatrixKind::kFp8>(device.multiprocessors, sink.as<float>());
}

}  // namespace deepinfer::cuda
