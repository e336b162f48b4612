// Reads device memory once and keeps nothing: the ceiling of everything that streams weights.
#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/ceilings/random_words.cuh"
#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/timed_launches.h"

namespace deepinfer::cuda {
namespace {

constexpr int kRepeats = 20;
constexpr int64_t kGrain = int64_t{16} << 20;

constexpr int kThreads = 512;
constexpr int kLoads = 8;  // in flight, of each thread

__device__ __forceinline__ uint4 load_once(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// Blocks take pieces of kThreads * kLoads * 16 bytes in turn.
__global__ void __launch_bounds__(kThreads) read_plain(const uint4* data, int64_t pieces, uint32_t* sink) {
  uint32_t sum = 0;
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const uint4* p = data + piece * kThreads * kLoads + threadIdx.x;
    uint4 v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = load_once(p + i * kThreads);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  if (sum == 0x12345678) *sink = sum;  // keeps the loads
}

constexpr int kStageBytes = 32768;
constexpr int kStages = 6;

// One warp a block keeps kStages copies in flight.
__global__ void __launch_bounds__(32) read_bulk(const std::byte* data, int64_t stages) {
  extern __shared__ __align__(128) std::byte buffer[];
  __shared__ uint64_t barriers[kStages];
  if (threadIdx.x != 0) return;
  for (auto& barrier : barriers) barrier_init(shared_address(&barrier), 1);
  barrier_fence_init();
  const auto start = [&](int64_t stage, int place) {
    const uint32_t barrier = shared_address(&barriers[place]);
    barrier_arrive_expect(barrier, kStageBytes);
    bulk_copy_once(shared_address(buffer) + place * kStageBytes, data + stage * kStageBytes, kStageBytes, barrier);
  };
  int64_t next = blockIdx.x;
  for (int place = 0; place < kStages && next < stages; ++place, next += gridDim.x) start(next, place);
  int place = 0;
  uint32_t parity = 0;
  for (int64_t stage = blockIdx.x; stage < stages; stage += gridDim.x) {
    barrier_wait(shared_address(&barriers[place]), parity);
    if (next < stages) start(next, place);
    next += gridDim.x;
    if (++place == kStages) {
      place = 0;
      parity ^= 1;
    }
  }
}

}  // namespace

Result<double> measure_read(ReadKind kind, int64_t bytes) {
  if (bytes < kGrain || bytes % kGrain != 0)
    return invalid_argument("bytes to read: a multiple of 16 MiB is needed");
  DI_ASSIGN_OR_RETURN(const Device device, current_device());
  if (kind == ReadKind::kBulkCopies && device.capability < 90)
    return unsupported("bulk copies need a GPU of compute capability 9.0 or more");
  DI_ASSIGN_OR_RETURN(const DeviceBuffer data, DeviceBuffer::allocate(bytes));
  DI_ASSIGN_OR_RETURN(const DeviceBuffer sink, DeviceBuffer::allocate(sizeof(uint32_t)));
  DI_RETURN_IF_ERROR(fill_random(data));
  if (kind == ReadKind::kPlainLoads) {
    const int64_t pieces = bytes / (kThreads * kLoads * 16);
    double best = 0;
    for (const int blocks : {2, 4}) {  // of a multiprocessor
      DI_ASSIGN_OR_RETURN(const double seconds, best_seconds(nullptr, kRepeats, "read_plain", [&] {
                            read_plain<<<device.multiprocessors * blocks, kThreads>>>(data.as<uint4>(), pieces,
                                                                                      sink.as<uint32_t>());
                          }));
      best = std::max(best, static_cast<double>(bytes) / seconds);
    }
    return best;
  }
  constexpr int kShared = kStages * kStageBytes;
  DI_RETURN_IF_ERROR(cuda_status(
      cudaFuncSetAttribute(read_bulk, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "read_bulk"));
  DI_ASSIGN_OR_RETURN(const double seconds, best_seconds(nullptr, kRepeats, "read_bulk", [&] {
                        read_bulk<<<device.multiprocessors, 32, kShared>>>(data.data(), bytes / kStageBytes);
                      }));
  return static_cast<double>(bytes) / seconds;
}

}  // namespace deepinfer::cuda
