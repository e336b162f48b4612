// What the GPU can do at best: the limits that every figure of this backend stands beside, measured in the same run.
// For benchmarks.  Each call allocates what it needs, takes milliseconds to a second and gives the memory back.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/launch/device_buffer.h"
#include "base/status.h"

namespace deepinfer::cuda {

// Fills device memory with hashed words: zeros take less power than data, so that a GPU runs faster on them.
Status fill_random(const DeviceBuffer& buffer);

struct Device {
  std::string name;
  int capability = 0;  // 90: compute capability 9.0
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
};
// The current device.  kDeviceFailure where there is none.
Result<Device> current_device();

enum class ReadKind {
  kPlainLoads,  // 16-byte loads into registers
  kBulkCopies,  // the copy engine into shared memory (SM90)
};
// Bytes a second, best of 20 passes over `bytes` (a multiple of 16 MiB) of random data.
Result<double> measure_read(ReadKind kind, int64_t bytes);
// Bytes read plus bytes written a second, best of 20 copies of `bytes`.
Result<double> measure_copy(int64_t bytes);

enum class MatrixKind { kBf16, kFp8 };
// Floating-point operations a second (a multiply-add is two) of the tensor cores (SM90: wgmma, 64 x 256 tiles) on
// random operands that lie in shared memory, for about 50 ms; best of 5.
Result<double> measure_matrix_peak(MatrixKind kind);

enum class GraphEdge {
  kFull,          // a node starts when the one before has ended
  kProgrammatic,  // a node is launched while the one before runs, and waits for its end
};
// Seconds a node of a graph of 1,000 empty kernels, each after the other; best of 20 launches.
Result<double> measure_graph_node(GraphEdge edge);

}  // namespace deepinfer::cuda
