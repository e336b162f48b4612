#include "backends/cuda/launch/write_ring.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cuda/launch/cuda_status.h"

namespace deepinfer::cuda {

Status WriteRing::prepare() {
  void* pinned = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaMallocHost(&pinned, kPartBytes * kParts),
                                 fmt::format("{} bytes of pinned memory", kPartBytes * kParts)));
  pinned_ = static_cast<std::byte*>(pinned);
  for (CUevent_st*& event : copied_)
    DI_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event"));
  return {};
}

WriteRing::~WriteRing() {
  for (CUevent_st* event : copied_)
    if (event != nullptr) cudaEventDestroy(event);
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
}

Status WriteRing::write(std::byte* to, const std::byte* from, int64_t bytes, CUstream_st* queue) {
  for (int64_t at = 0; at < bytes; at += kPartBytes)
    DI_RETURN_IF_ERROR(write_piece(to + at, from + at, std::min(bytes - at, kPartBytes), queue));
  return {};
}

Status WriteRing::write_piece(std::byte* to, const std::byte* from, int64_t bytes, CUstream_st* queue) {
  if (at_ + bytes > kPartBytes) {
    DI_RETURN_IF_ERROR(cuda_status(cudaEventRecord(copied_[static_cast<size_t>(part_)], queue), "copy to the device"));
    part_ = (part_ + 1) % kParts;
    at_ = 0;
    DI_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(copied_[static_cast<size_t>(part_)]), "copy to the device"));
  }
  std::byte* const piece = pinned_ + part_ * kPartBytes + at_;
  std::memcpy(piece, from, static_cast<size_t>(bytes));
  at_ += (bytes + 15) / 16 * 16;
  return cuda_status(cudaMemcpyAsync(to, piece, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, queue),
                     "copy to the device");
}

}  // namespace deepinfer::cuda
