#include "backends/cuda/launch/upload_ring.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/launch_list.h"
#include "base/check.h"

namespace deepinfer::cuda {

Status UploadRing::prepare(int64_t parcel_bytes, LaunchList& launches) {
  DI_CHECK(pinned_ == nullptr && parcel_bytes > 0, "a ring is prepared once");
  parcel_bytes_ = room<std::byte>(parcel_bytes);
  launches_ = &launches;
  void* pinned = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaMallocHost(&pinned, static_cast<size_t>(parcel_bytes_ * kParts)),
                                 fmt::format("{} bytes of pinned memory", parcel_bytes_ * kParts)));
  pinned_ = static_cast<std::byte*>(pinned);
  DI_ASSIGN_OR_RETURN(device_, DeviceBuffer::allocate(parcel_bytes_));
  for (CUevent_st*& event : copied_)
    DI_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event"));
  launches.use(this);
  return {};
}

UploadRing::~UploadRing() {
  for (CUevent_st* event : copied_)
    if (event != nullptr) cudaEventDestroy(event);
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
}

Status UploadRing::begin(int64_t bytes) {
  DI_CHECK(bytes <= parcel_bytes_, "a list fits into a parcel");
  const std::scoped_lock lock(launches_->mutex_);
  owner_ = std::this_thread::get_id();
  if (bytes > kManyBytes || next_ + bytes > parcel_bytes_) {
    DI_RETURN_IF_ERROR(launches_->flush_locked());
    restarts_ = true;
  }
  if (std::exchange(restarts_, false) && next_ > 0) {
    part_ = (part_ + 1) % kParts;
    next_ = uploaded_ = 0;
    sent_ = 0;
    DI_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(copied_[static_cast<size_t>(part_)]), "upload"));
  }
  at_ = next_;
  end_ = at_ + bytes;
  next_ = at_ + static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(bytes, kLeastRoom))));
  return {};
}

void UploadRing::restart() {
  if (owner_ == std::this_thread::get_id()) restarts_ = true;
}

void UploadRing::advance(int64_t bytes) {
  DI_CHECK(at_ + bytes <= end_, "a parcel has room for what is put there");
  at_ += bytes;
}

Status UploadRing::send() {
  sent_.store(at_, std::memory_order_release);
  return {};
}

Status UploadRing::upload() {
  const int64_t sent = sent_.load(std::memory_order_acquire);
  if (sent == uploaded_) return {};
  DI_RETURN_IF_ERROR(
      cuda_status(cudaMemcpyAsync(device_.data() + uploaded_, pinned_ + part_ * parcel_bytes_ + uploaded_,
                                  static_cast<size_t>(sent - uploaded_), cudaMemcpyHostToDevice, launches_->queue_),
                  "upload"));
  uploaded_ = sent;
  return cuda_status(cudaEventRecord(copied_[static_cast<size_t>(part_)], launches_->queue_), "upload");
}

}  // namespace deepinfer::cuda
