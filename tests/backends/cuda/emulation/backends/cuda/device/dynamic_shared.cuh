// In place of src/backends/cuda/device/dynamic_shared.cuh.
#pragma once

#include <cstddef>

#include "cuda_runtime_api.h"

namespace deepinfer::cuda {

inline std::byte* dynamic_shared() {
  return emulation::shared_memory();
}

}  // namespace deepinfer::cuda
