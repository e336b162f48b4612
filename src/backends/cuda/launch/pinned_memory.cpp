#include "backends/cuda/launch/pinned_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cuda/launch/cuda_status.h"
#include "base/on_threads.h"
#include "tensor/buffer.h"
#include "tensor/parallel_load.h"

namespace deepinfer::cuda {
namespace {

constexpr uint64_t kPage = 4096;

// Pages of their own, which can be registered whatever lies beside them.
uint64_t mapped_bytes(uint64_t bytes) {
  return std::max(bytes, uint64_t{Buffer::kLarge});
}

// Brings the pages in by several threads: registering does that too, but by one.
void touch(std::byte* data, uint64_t bytes) {
  const auto threads = static_cast<uint64_t>(load_threads(bytes));
  const uint64_t pages = (bytes + kPage - 1) / kPage;
  on_threads(threads, [&](uint64_t thread) {
    for (uint64_t page = pages * thread / threads; page < pages * (thread + 1) / threads; ++page)
      *static_cast<volatile std::byte*>(data + page * kPage) = std::byte{0};
  });
}

}  // namespace

// Huge pages of the system, registered: eight times as fast as cudaHostAlloc, which brings in small ones one by one.
Result<std::byte*> PinnedMemory::allocate(uint64_t bytes) {
  DI_ASSIGN_OR_RETURN(std::byte* const data, host_memory().allocate(mapped_bytes(bytes)));
  touch(data, mapped_bytes(bytes));
  const Status registered = cuda_status(cudaHostRegister(data, mapped_bytes(bytes), cudaHostRegisterMapped),
                                        fmt::format("{} bytes of page-locked host memory", bytes));
  if (!registered.ok()) {
    host_memory().release(data, mapped_bytes(bytes));
    return registered;
  }
  void* there = nullptr;
  if (cudaHostGetDevicePointer(&there, data, 0) != cudaSuccess || there != data) {
    release(data, bytes);
    return unsupported("this GPU has other addresses than the processor for memory of the host");
  }
  return data;
}

void PinnedMemory::release(std::byte* data, uint64_t bytes) noexcept {
  finish();
  cudaHostUnregister(data);
  host_memory().release(data, mapped_bytes(bytes));
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
