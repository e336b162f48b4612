#include "backends/cuda/launch/device_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/file_upload.h"

namespace deepinfer::cuda {

Status DeviceMemory::open(Stream stream, double share) {
  stream_ = stream;
  share_ = share;
  return ring_.prepare();
}

std::optional<MemoryRoom> DeviceMemory::room() const {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
  const auto granted = static_cast<uint64_t>(share_ * static_cast<double>(total));
  const uint64_t used = total - free;
  return MemoryRoom{total, granted, granted > used ? granted - used : 0};
}

Result<std::byte*> DeviceMemory::allocate(uint64_t bytes) {
  void* data = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaMalloc(&data, bytes), fmt::format("{} bytes of device memory", bytes)));
  const Status zeroed = cuda_status(cudaMemsetAsync(data, 0, bytes, stream_), "zeros");
  if (!zeroed.ok()) {
    cudaFree(data);
    return zeroed;
  }
  return static_cast<std::byte*>(data);
}

void DeviceMemory::release(std::byte* data, uint64_t) noexcept {
  cudaFree(data);  // waits for what still uses it
}

void DeviceMemory::discard(std::byte* data, uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (status_.ok()) status_ = cuda_status(cudaMemsetAsync(data, 0, bytes, stream_), "zeros");
}

void DeviceMemory::write(void* to, const void* from, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (status_.ok())
    status_ = ring_.write(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), static_cast<int64_t>(bytes),
                          stream_);
}

void DeviceMemory::read(void* to, const void* from, size_t bytes) {
  note(cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy to the host"));
  finish();
}

void DeviceMemory::copy(void* to, const void* from, size_t bytes) {
  if (well()) note(cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copy"));
}

void DeviceMemory::finish() {
  if (well()) note(cuda_status(cudaStreamSynchronize(stream_), "CUDA stream"));
}

Status DeviceMemory::load(std::span<const FilePiece> pieces) {
  finish();  // what was written there before
  DI_RETURN_IF_ERROR(status());
  Status loaded = upload_files(pieces);
  if (loaded.code() == StatusCode::kDeviceFailure) note(loaded);
  return loaded;
}

Status DeviceMemory::status() {
  const std::scoped_lock lock(mutex_);
  return status_;
}

void DeviceMemory::note(Status status) {
  const std::scoped_lock lock(mutex_);
  if (status_.ok()) status_ = std::move(status);
}
bool DeviceMemory::well() {
  const std::scoped_lock lock(mutex_);
  return status_.ok();
}

}  // namespace deepinfer::cuda
