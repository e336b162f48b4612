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

Result<const ExpertPointers*> ExpertTables::table(const ExpertWeights* experts, int count) {
  DI_CHECK(count <= experts_, "experts of limits");
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.place == experts; });
  const auto slot = static_cast<size_t>(found - entries_.begin());
  const ExpertPointers* const table = device_.as<ExpertPointers>();
  const auto at = [&](size_t i) { return table + i * static_cast<size_t>(experts_); };
  if (found != entries_.end() && std::equal(experts, experts + count, found->content.begin(), found->content.end(),
                                            [](const ExpertWeights& a, const ExpertWeights& b) { return same(a, b); }))
    return at(slot);
  size_t to = slot;
  if (found == entries_.end()) {
    if (entries_.size() < kTables) {
      entries_.emplace_back();
    } else {
      to = next_;
      next_ = (next_ + 1) % kTables;
    }
  }
  // A copy that reads the pinned place may still be on its way.
  const bool used = !entries_[to].content.empty();
  if (used) DI_RETURN_IF_ERROR(cuda_status(cudaStreamSynchronize(stream_), "experts"));
  entries_[to] = {experts, std::vector<ExpertWeights>(experts, experts + count)};
  DI_RETURN_IF_ERROR(upload(to));
  return at(to);
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
