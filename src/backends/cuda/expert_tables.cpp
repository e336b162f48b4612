#include "backends/cuda/expert_tables.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/launch/cuda_status.h"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

bool same(const LinearWeight& a, const LinearWeight& b) {
  return a.data == b.data && a.scale == b.scale && a.n == b.n && a.k == b.k && a.format == b.format;
}
bool same(const ExpertWeights& a, const ExpertWeights& b) {
  return same(a.w1, b.w1) && same(a.w3, b.w3) && same(a.w2, b.w2);
}

}  // namespace

ExpertTables::~ExpertTables() {
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
}

Status ExpertTables::prepare(int experts, Stream stream) {
  DI_CHECK(pinned_ == nullptr, "tables are prepared once");
  experts_ = std::max(experts, 1);
  stream_ = stream;
  const size_t bytes = kTables * static_cast<size_t>(experts_) * sizeof(ExpertPointers);
  void* pinned = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaMallocHost(&pinned, bytes), fmt::format("{} bytes of pinned memory", bytes)));
  pinned_ = static_cast<ExpertPointers*>(pinned);
  DI_ASSIGN_OR_RETURN(device_, DeviceBuffer::allocate(static_cast<int64_t>(bytes)));
  entries_.reserve(kTables);
  return {};
}

const ExpertPointers* ExpertTables::table(size_t slot) const {
  return device_.as<ExpertPointers>() + slot * static_cast<size_t>(experts_);
}

const ExpertPointers* ExpertTables::find(const ExpertWeights* experts, int count) const {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.place == experts && std::equal(experts, experts + count, entry.content.begin(), entry.content.end(),
                                                [](const auto& a, const auto& b) { return same(a, b); });
  });
  return known == entries_.end() ? nullptr : table(static_cast<size_t>(known - entries_.begin()));
}

Result<const ExpertPointers*> ExpertTables::add(const ExpertWeights* experts, int count) {
  DI_CHECK(count <= experts_, "experts of limits");
  const auto old = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.place == experts; });
  auto slot = static_cast<size_t>(old - entries_.begin());
  if (old == entries_.end() && slot == kTables) {
    slot = next_;
    next_ = (next_ + 1) % kTables;
  }
  if (slot < entries_.size()) {  // a copy that reads the pinned place may still be on its way
    DI_RETURN_IF_ERROR(cuda_status(cudaStreamSynchronize(stream_), "experts"));
  } else {
    entries_.emplace_back();
  }
  entries_[slot] = {experts, std::vector<ExpertWeights>(experts, experts + count)};
  DI_RETURN_IF_ERROR(upload(slot));
  return table(slot);
}

Status ExpertTables::upload(size_t slot) {
  const size_t first = slot * static_cast<size_t>(experts_), count = entries_[slot].content.size();
  const auto bytes = [](const void* data) { return static_cast<const uint8_t*>(data); };
  std::transform(entries_[slot].content.begin(), entries_[slot].content.end(), pinned_ + first,
                 [&](const ExpertWeights& e) -> ExpertPointers {
                   return {bytes(e.w1.data), e.w1.scale, bytes(e.w3.data), e.w3.scale, bytes(e.w2.data), e.w2.scale};
                 });
  return cuda_status(cudaMemcpyAsync(device_.as<ExpertPointers>() + first, pinned_ + first,
                                     count * sizeof(ExpertPointers), cudaMemcpyHostToDevice, stream_),
                     "experts");
}

}  // namespace deepinfer::cuda
