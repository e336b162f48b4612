// The CUDA backend behind Ops, on the current GPU and one stream of its own.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "ops/ops.h"

namespace deepinfer {

// The kernels that suit the GPU: "cuda/sm90" on Hopper (compute capability 9.0), else "cuda/any", for 8.0 and more.  A
// path by name, `any` or `sm90`, goes before the variable DEEPINFER_CUDA_PATH, and that before the GPU's own.
// Steps that come again run as graphs; with use_graphs false or DEEPINFER_CUDA_GRAPHS=off kernels run one by one, each
// behind the end of the one before.  The bits are the same.
// memory_share: of the GPU's memory that may be in use, (0, 1]; Memory::room() keeps to it.
// kDeviceFailure where there is no GPU, kUnsupported where it is not one for the path, kInvalidArgument where no path
// has that name or a variable another value than those.
Result<std::unique_ptr<Ops>> make_cuda_ops(std::string_view path = {}, bool use_graphs = true,
                                           double memory_share = 1);

}  // namespace deepinfer
