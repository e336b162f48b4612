// The CUDA backend behind Ops, on the current GPU and one stream of its own.
#pragma once

#include <memory>

#include "base/status.h"
#include "ops/ops.h"

namespace deepinfer {

// The kernels that suit the GPU: for now those for every GPU from compute capability 8.0 on ("cuda/any").  The variable
// DEEPINFER_CUDA_PATH forces a path: `any`; `sm90` is refused, as not every operation has such a kernel yet.
// kDeviceFailure where there is no GPU, kUnsupported where it is too old or the path does not exist.
Result<std::unique_ptr<Ops>> make_cuda_ops();

}  // namespace deepinfer
