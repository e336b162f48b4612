#include "backends/cuda/launch/graph.h"

#include <cuda_runtime_api.h>

#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/timed_launches.h"

namespace deepinfer::cuda {
namespace {

Result<cudaGraphExec_t> capture_on(cudaStream_t stream, FunctionRef<Status(Stream)> launches) {
  DI_RETURN_IF_ERROR(cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture"));
  const Status launched = launches(stream);
  cudaGraph_t graph = nullptr;
  const Status captured = cuda_status(cudaStreamEndCapture(stream, &graph), "capture");
  cudaGraphExec_t executable = nullptr;
  Status ready = !launched.ok() ? launched : captured;
  if (ready.ok()) ready = cuda_status(cudaGraphInstantiate(&executable, graph, 0), "graph");
  if (graph != nullptr) cudaGraphDestroy(graph);
  DI_RETURN_IF_ERROR(ready);
  return executable;
}

}  // namespace

Result<Graph> Graph::capture(FunctionRef<Status(Stream)> launches) {
  cudaStream_t stream = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaStreamCreate(&stream), "stream"));
  Graph graph(stream, nullptr);  // destroys the stream whatever follows
  DI_ASSIGN_OR_RETURN(graph.executable_, capture_on(stream, launches));
  return graph;
}

Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Result<double> Graph::best_seconds(int repeats, std::string_view what) const {
  return cuda::best_seconds(stream_, repeats, what, [&] { cudaGraphLaunch(executable_, stream_); });
}

}  // namespace deepinfer::cuda
