// CUDA errors as Status.  Of this folder's host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/status.h"

namespace deepinfer::cuda {

// kDeviceFailure, or kResourceExhausted where memory is short: "what: the driver's words (name)".
Status cuda_status(cudaError_t error, std::string_view what);
// Of the kernel launched just before.
Status launch_status(std::string_view kernel);

}  // namespace deepinfer::cuda
