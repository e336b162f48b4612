#include "serving/api/running_requests.h"

#include <vector>

#include "serving/api/served_request.h"

namespace deepinfer::serving {

bool RunningRequests::add(const std::shared_ptr<ServedRequest>& request) {
  const std::lock_guard lock(mutex_);
  if (closed_ || requests_.size() >= most_) return false;
  requests_.emplace(request.get(), request);
  return true;
}

void RunningRequests::remove(const ServedRequest* request) {
  const std::lock_guard lock(mutex_);
  requests_.erase(request);
  if (requests_.empty()) empty_.notify_all();
}

size_t RunningRequests::count() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

void RunningRequests::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool RunningRequests::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool RunningRequests::wait_until_empty(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return empty_.wait_until(lock, deadline, [this] { return requests_.empty(); });
}

void RunningRequests::end_all(const ApiError& error) {
  std::vector<std::shared_ptr<ServedRequest>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, request] : requests_)
      if (auto alive = request.lock()) all.push_back(std::move(alive));
  }
  for (const auto& request : all) request->end_with(error);
}

}  // namespace deepinfer::serving
