#include "backends/cuda/launch/kernel_chain.h"

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "backends/cuda/launch/cuda_status.h"

namespace deepinfer::cuda {
namespace {

cudaKernelNodeParams parameters(const LaunchShape& shape, const void*& arguments) {
  cudaKernelNodeParams node = {};
  node.func = const_cast<void*>(shape.kernel);
  node.gridDim = dim3(shape.grid[0], shape.grid[1], shape.grid[2]);
  node.blockDim = dim3(static_cast<unsigned>(shape.threads));
  node.sharedMemBytes = static_cast<unsigned>(shape.shared);
  node.kernelParams = const_cast<void**>(&arguments);
  return node;
}

Result<cudaGraphNode_t> add_node(cudaGraph_t graph, const RecordedLaunch& launch, const void* arguments) {
  const LaunchShape& shape = launch.shape;
  const cudaKernelNodeParams node_parameters = parameters(shape, arguments);
  cudaGraphNode_t node = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &node_parameters), launch.name));
  if (shape.cluster > 0) {
    cudaLaunchAttributeValue value = {};
    value.clusterDim.x = shape.cluster;
    value.clusterDim.y = value.clusterDim.z = 1;
    DI_RETURN_IF_ERROR(
        cuda_status(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value), launch.name));
  }
  return node;
}

// early: `after` may be launched while `before` runs.
Status add_edge(cudaGraph_t graph, cudaGraphNode_t before, cudaGraphNode_t after, bool early) {
  if (before == nullptr) return {};
  cudaGraphEdgeData edge = {};
  if (early) {
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
  }
  return cuda_status(cudaGraphAddDependencies(graph, &before, &after, &edge, 1), "edge of a graph");
}

}  // namespace

struct KernelChain::Nodes {
  Nodes() = default;
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;
  ~Nodes() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaGraph_t graph = nullptr;  // names the nodes of the executable
  cudaGraphExec_t executable = nullptr;
  std::vector<cudaGraphNode_t> nodes;
};

KernelChain::KernelChain(std::unique_ptr<Nodes> nodes) : nodes_(std::move(nodes)) {}
KernelChain::KernelChain(KernelChain&&) noexcept = default;
KernelChain& KernelChain::operator=(KernelChain&&) noexcept = default;
KernelChain::~KernelChain() = default;

Result<KernelChain> KernelChain::make(const RecordedLaunches& launches, CUstream_st* queue) {
  auto made = std::make_unique<Nodes>();
  DI_RETURN_IF_ERROR(cuda_status(cudaGraphCreate(&made->graph, 0), "graph"));
  made->nodes.reserve(launches.count());
  cudaGraphNode_t main = nullptr, sides[kSideLines] = {};  // the last node of each line; sides: not yet joined
  for (size_t i = 0; i < launches.count(); ++i) {
    const LaunchShape& shape = launches[i].shape;
    DI_ASSIGN_OR_RETURN(const cudaGraphNode_t node, add_node(made->graph, launches[i], launches.arguments(i)));
    made->nodes.push_back(node);
    const bool of_main = shape.beside < 0;
    DI_RETURN_IF_ERROR(add_edge(made->graph, main, node, shape.early && of_main));
    for (int line = 0; line < kSideLines; ++line) {
      if (of_main ? (shape.joins >> line & 1) == 0 : shape.beside != line) continue;
      DI_RETURN_IF_ERROR(add_edge(made->graph, sides[line], node, false));
      sides[line] = nullptr;
    }
    (of_main ? main : sides[shape.beside]) = node;
  }
  DI_RETURN_IF_ERROR(cuda_status(cudaGraphInstantiate(&made->executable, made->graph, 0), "graph"));
  DI_RETURN_IF_ERROR(cuda_status(cudaGraphUpload(made->executable, queue), "graph"));
  return KernelChain(std::move(made));
}

Status KernelChain::set(size_t i, const LaunchShape& shape, std::string_view name, const void* arguments) {
  const cudaKernelNodeParams node = parameters(shape, arguments);
  return cuda_status(cudaGraphExecKernelNodeSetParams(nodes_->executable, nodes_->nodes[i], &node), name);
}

Status KernelChain::launch(CUstream_st* queue) {
  return cuda_status(cudaGraphLaunch(nodes_->executable, queue), "graph");
}

}  // namespace deepinfer::cuda
