#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/graph.h"

namespace deepinfer::cuda {
namespace {

constexpr int kNodes = 1000;

__global__ void empty() {
  allow_next_kernel();
  wait_for_previous_kernels();
}

Status launch_chain(Stream stream, GraphEdge edge) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(32);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = edge == GraphEdge::kProgrammatic ? 1 : 0;
  for (int i = 0; i < kNodes; ++i)
    DI_RETURN_IF_ERROR(cuda_status(cudaLaunchKernelEx(&config, empty), "graph node"));
  return {};
}

}  // namespace

Result<double> measure_graph_node(GraphEdge edge) {
  DI_ASSIGN_OR_RETURN(const Graph graph, Graph::capture([edge](Stream stream) { return launch_chain(stream, edge); }));
  DI_ASSIGN_OR_RETURN(const double seconds, graph.best_seconds(20, "graph"));
  return seconds / kNodes;
}

}  // namespace deepinfer::cuda
