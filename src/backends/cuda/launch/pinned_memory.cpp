#include "backends/cuda/launch/pinned_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>

#include "backends/cuda/launch/cuda_status.h"
#include "tensor/parallel_load.h"

namespace deepinfer::cuda {

Result<std::byte*> PinnedMemory::allocate(uint64_t bytes) {
  void* data = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaHostAlloc(&data, bytes, cudaHostAllocMapped),
                                 fmt::format("{} bytes of page-locked host memory", bytes)));
  std::memset(data, 0, bytes);
  return static_cast<std::byte*>(data);
}

void PinnedMemory::release(std::byte* data, uint64_t) noexcept {
  cudaFreeHost(data);  // waits for what still uses it
}

void PinnedMemory::discard(std::byte* data, uint64_t bytes) {
  finish();
  std::memset(data, 0, bytes);
}

void PinnedMemory::write(void* to, const void* from, size_t bytes) {
  finish();
  std::memcpy(to, from, bytes);
}

void PinnedMemory::finish() {
  cudaStreamSynchronize(stream_);
}

Status PinnedMemory::load(std::span<const FilePiece> pieces) {
  finish();
  return load_into_host_memory(pieces);
}

}  // namespace deepinfer::cuda
