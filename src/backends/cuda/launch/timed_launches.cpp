#include "backends/cuda/launch/timed_launches.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>

#include "backends/cuda/launch/cuda_status.h"

namespace deepinfer::cuda {
namespace {

class Event {
 public:
  Event() : status_(cuda_status(cudaEventCreate(&event_), "event")) {}
  ~Event() {
    if (status_.ok()) cudaEventDestroy(event_);
  }
  Event(const Event&) = delete;
  const Status& status() const { return status_; }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
  Status status_;
};

}  // namespace

Result<double> best_seconds(Stream stream, int repeats, std::string_view what, FunctionRef<void()> launch) {
  const Event begin, end;
  DI_RETURN_IF_ERROR(begin.status());
  DI_RETURN_IF_ERROR(end.status());
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repeats; ++i) {
    DI_RETURN_IF_ERROR(cuda_status(cudaEventRecord(begin.get(), stream), what));
    launch();
    DI_RETURN_IF_ERROR(launch_status(what));
    DI_RETURN_IF_ERROR(cuda_status(cudaEventRecord(end.get(), stream), what));
    DI_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(end.get()), what));
    float milliseconds = 0;
    DI_RETURN_IF_ERROR(cuda_status(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), what));
    if (i > 0) best = std::min(best, milliseconds / 1e3);
  }
  return best;
}

}  // namespace deepinfer::cuda
