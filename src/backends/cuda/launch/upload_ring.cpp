#include "backends/cuda/launch/upload_ring.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "backends/cuda/launch/cuda_status.h"
#include "base/check.h"

namespace deepinfer::cuda {

Status UploadRing::prepare(int64_t parcel_bytes, Stream stream) {
  DI_CHECK(pinned_ == nullptr && parcel_bytes > 0, "a ring is prepared once");
  parcel_bytes_ = room<std::byte>(parcel_bytes);
  stream_ = stream;
  void* pinned = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaMallocHost(&pinned, static_cast<size_t>(parcel_bytes_ * kParts)),
                                 fmt::format("{} bytes of pinned memory", parcel_bytes_ * kParts)));
  pinned_ = static_cast<std::byte*>(pinned);
  DI_ASSIGN_OR_RETURN(device_, DeviceBuffer::allocate(parcel_bytes_ * kParts));
  for (CUevent_st*& event : copied_)
    DI_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event"));
  return {};
}

UploadRing::~UploadRing() {
  for (CUevent_st* event : copied_)
    if (event != nullptr) cudaEventDestroy(event);
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
}

Status UploadRing::begin(int64_t bytes) {
  DI_CHECK(bytes <= parcel_bytes_, "a list fits into a parcel");
  if (at_ + bytes > (part_ + 1) * parcel_bytes_) {
    DI_RETURN_IF_ERROR(cuda_status(cudaEventRecord(copied_[static_cast<size_t>(part_)], stream_), "upload"));
    used_[static_cast<size_t>(part_)] = true;
    part_ = (part_ + 1) % kParts;
    at_ = part_ * parcel_bytes_;
    if (used_[static_cast<size_t>(part_)])
      DI_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(copied_[static_cast<size_t>(part_)]), "upload"));
  }
  begin_ = at_;
  end_ = at_ + bytes;
  return {};
}

void UploadRing::advance(int64_t bytes) {
  DI_CHECK(at_ + bytes <= end_, "a parcel has room for what is put there");
  at_ += bytes;
}

Status UploadRing::send() {
  if (at_ == begin_) return {};
  return cuda_status(cudaMemcpyAsync(device_.data() + begin_, pinned_ + begin_, static_cast<size_t>(at_ - begin_),
                                     cudaMemcpyHostToDevice, stream_),
                     "upload");
}

Status UploadRing::send_to(void* to, const void* from, int64_t bytes) {
  DI_RETURN_IF_ERROR(begin(room<std::byte>(bytes)));
  std::memcpy(pinned_ + begin_, from, static_cast<size_t>(bytes));
  at_ = end_;
  return cuda_status(cudaMemcpyAsync(to, pinned_ + begin_, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_),
                     "upload");
}

}  // namespace deepinfer::cuda
