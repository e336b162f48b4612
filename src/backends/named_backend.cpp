#include "backends/named_backend.h"

#include <fmt/format.h>

#include "backends/cpu/cpu_ops.h"
#ifdef DEEPINFER_HAS_CUDA
#include "backends/cuda/cuda_ops.h"
#endif

namespace deepinfer {
namespace {

Result<std::unique_ptr<Ops>> make_gpu_backend([[maybe_unused]] const BackendOptions& options,
                                              [[maybe_unused]] std::string_view field) {
#ifdef DEEPINFER_HAS_CUDA
  Result<std::unique_ptr<Ops>> ops = make_cuda_ops({}, true, options.gpu_memory_utilization);
  if (!ops.ok()) return ops.status().with_context(std::string(field) + " cuda");
  return ops;
#else
  return unsupported(fmt::format(
      "{} is cuda, but this build has no CUDA backend; build one with `cmake --preset cuda-sm90` (docs/cuda.md)",
      field));
#endif
}

}  // namespace

std::string_view backend_names() {
  return "cpu, cuda, reference";
}

std::string_view built_backends() {
#ifdef DEEPINFER_HAS_CUDA
  return backend_names();
#else
  return "cpu, reference";
#endif
}

bool is_backend_name(std::string_view name) {
  return name == "cpu" || name == "cuda" || name == "reference";
}

std::string backend_name_of_path(std::string_view path) {
  return std::string(path.substr(0, path.find('/')));
}

Result<std::unique_ptr<Ops>> make_named_backend(const BackendOptions& options, std::string_view field) {
  if (!is_backend_name(options.name))
    return invalid_argument(fmt::format("{} is '{}'; allowed: {}", field, options.name, backend_names()));
  if (options.name == "reference") return make_reference_ops();
  if (options.name == "cuda") return make_gpu_backend(options, field);
  CpuOpsOptions cpu;
  cpu.threads = options.threads;
  return make_cpu_ops(cpu);
}

}  // namespace deepinfer
