#include "backends/cuda/launch/launch_list.h"

#include "backends/cuda/launch/stream.h"
#include "backends/cuda/launch/upload_ring.h"
#include "base/check.h"

namespace deepinfer::cuda {

Stream::operator CUstream_st*() const {
  if (list_ != nullptr) (void)list_->flush();
  return queue_;
}

void LaunchList::open(CUstream_st* queue, bool use_graphs) {
  queue_ = queue;
  overlaps_ = use_graphs;
  chains_ = ChainCache(use_graphs);
  launches_.reserve(kMostLaunches, kArgumentBytes);
}

Status LaunchList::add(const LaunchShape& shape, StartKernel start, std::string_view name, const void* arguments,
                       size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (!launches_.has_room(bytes)) DI_RETURN_IF_ERROR(flush_locked());
  LaunchShape placed = shape;
  placed.early = shape.early && overlaps_;
  placed.beside = beside_;
  if (beside_ >= 0) {
    awaited_ |= static_cast<uint8_t>(1 << beside_);
  } else {
    placed.joins = joins_ & awaited_;
    awaited_ &= static_cast<uint8_t>(~joins_);
    joins_ = 0;
  }
  if (status_.ok()) launches_.add(placed, start, name, arguments, bytes);
  if (launches_.count() < part_launches_) return status_;
  part_launches_ *= kPartGrowth;
  return flush_locked();
}

Status LaunchList::flush() {
  const std::scoped_lock lock(mutex_);
  if (lists_ != nullptr) lists_->restart();
  part_launches_ = kFirstPart;
  return flush_locked();
}

Status LaunchList::flush_locked() {
  if (launches_.count() == 0 || !status_.ok()) return status_;
  if (lists_ != nullptr) status_ = lists_->upload();
  if (status_.ok()) status_ = chains_.run(launches_, queue_);
  launches_.clear();
  awaited_ = 0;
  return status_;
}

LaunchCounts LaunchList::counts() {
  const std::scoped_lock lock(mutex_);
  return chains_.counts();
}

}  // namespace deepinfer::cuda
