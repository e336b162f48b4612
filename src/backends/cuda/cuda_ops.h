// The CUDA backend behind Ops, on the current GPU and one stream of its own.
#pragma once

#include <memory>

#include "base/status.h"
#include "ops/ops.h"
#include "tensor/memory.h"

namespace deepinfer {

// What a MatrixView, a weight, a norm, a ring, a block or a rope table points to lies in memory(); so do ids, positions and
// flags of rows.  In the host's memory lie lists of structs, BlockList::blocks, what SamplingRow points to,
// GatherRows::index, EngramGather's table and rows of it, and Sample's results.  They may change once a call has
// returned.  All operations but sample() may still be under way then.
class CudaOps : public Ops {
 public:
  virtual Memory& memory() = 0;
  // The first error of the device; operations after it did nothing.  Waits for what is under way.
  virtual Status health() = 0;
};

// The kernels that suit the GPU: for now those for every GPU from compute capability 8.0 on ("cuda/any").  The variable
// DEEPINFER_CUDA_PATH forces a path: `any`; `sm90` is refused, as not every operation has such a kernel yet.
// kDeviceFailure where there is no GPU, kUnsupported where it is too old or the path does not exist.
Result<std::unique_ptr<CudaOps>> make_cuda_ops();

}  // namespace deepinfer
