// Graph: launches captured once and repeated as one.
#pragma once

#include <string_view>
#include <utility>

#include "backends/cuda/launch/stream.h"
#include "base/function_ref.h"
#include "base/status.h"

struct CUgraphExec_st;

namespace deepinfer::cuda {

class Graph {
 public:
  // launches puts the work on the stream that it gets; its error is handed on.
  static Result<Graph> capture(FunctionRef<Status(Stream)> launches);
  ~Graph();
  Graph(Graph&& other) noexcept
      : stream_(std::exchange(other.stream_, nullptr)), executable_(std::exchange(other.executable_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;

  // Shortest of `repeats` runs after one more, in seconds.
  Result<double> best_seconds(int repeats, std::string_view what) const;

 private:
  Graph(Stream stream, CUgraphExec_st* executable) : stream_(stream), executable_(executable) {}
  Stream stream_;
  CUgraphExec_st* executable_;
};

}  // namespace deepinfer::cuda
