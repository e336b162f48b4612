// RunningRequests: the requests that the server has accepted and not answered yet.  Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "serving/api/api_error.h"

namespace deepinfer::serving {

class ServedRequest;

class RunningRequests {
 public:
  explicit RunningRequests(size_t most) : most_(most) {}

  // False: there are as many as there may be, or no new ones are wanted.
  bool add(const std::shared_ptr<ServedRequest>& request);
  void remove(const ServedRequest* request);

  size_t count() const;
  // No new ones from now on.
  void close();
  bool closed() const;
  // Whether all have been answered by then.
  bool wait_until_empty(std::chrono::steady_clock::time_point deadline);
  // Ends all of them with this error.
  void end_all(const ApiError& error);

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  bool closed_ = false;
  std::unordered_map<const ServedRequest*, std::weak_ptr<ServedRequest>> requests_;
};

}  // namespace deepinfer::serving
