// Stream: what kernels are queued on.  Plain C++: headers that benchmarks include name it without CUDA's.
#pragma once

struct CUstream_st;

namespace deepinfer::cuda {

class LaunchList;

// A CUDA stream (nullptr: the default stream), and the list that kernels for it are recorded in, where there is one.
class Stream {
 public:
  Stream(CUstream_st* queue = nullptr, LaunchList* list = nullptr) : queue_(queue), list_(list) {}  // NOLINT: implicit

  LaunchList* list() const { return list_; }
  CUstream_st* queue() const { return queue_; }
  // For work that is put on the stream directly: whatever is recorded is put there first.  An error stays in the list.
  operator CUstream_st*() const;  // NOLINT: implicit

 private:
  CUstream_st* queue_;
  LaunchList* list_;
};

}  // namespace deepinfer::cuda
