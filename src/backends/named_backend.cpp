#include "backends/named_backend.h"

#include <fmt/format.h>

#include "backends/cpu/cpu_ops.h"
#ifdef DEEPINFER_HAS_CUDA
#include "backends/cuda/cuda_ops.h"
#endif

namespace deepinfer {
namespace {

Result<std::unique_ptr<Ops>> make_gpu_backend([[maybe_unused]] std::string_view field) {
#ifdef DEEPINFER_HAS_CUDA
  Result<std::unique_ptr<Ops>> ops = make_cuda_ops();
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

bool is_backend_name(std::string_view name) {
  return name == "cpu" || name == "cuda" || name == "reference";
}

std::string backend_name_of_path(std::string_view path) {
  return std::string(path.substr(0, path.find('/')));
}

Result<std::unique_ptr<Ops>> make_named_backend(std::string_view name, const ThreadPoolOptions& threads,
                                                std::string_view field) {
  if (!is_backend_name(name))
    return invalid_argument(fmt::format("{} is '{}'; allowed: {}", field, name, backend_names()));
  if (name == "reference") return make_reference_ops();
  if (name == "cuda") return make_gpu_backend(field);
  CpuOpsOptions cpu;
  cpu.threads = threads;
  return make_cpu_ops(cpu);
}

}  // namespace deepinfer
