// A backend by the name that a user gives it.  Called by executables, which have `--backend`; libraries get an Ops.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace deepinfer {

// "cpu, cuda, reference": for help and messages.
std::string_view backend_names();
bool is_backend_name(std::string_view name);
// Those that this build has.
std::string_view built_backends();
// The name that makes the operations of a path: "cuda" of "cuda/sm90".
std::string backend_name_of_path(std::string_view path);

inline constexpr double kGpuMemoryUtilization = 0.9;

struct BackendOptions {
  std::string name = "cpu";
  ThreadPoolOptions threads;                              // of the CPU backend
  double gpu_memory_utilization = kGpuMemoryUtilization;  // share of the GPU's memory that may be in use, (0, 1]
};

// field: what the user set, for messages ("--backend").  kInvalidArgument for an unknown name; kUnsupported where this
// build has no such backend; otherwise what the backend says of this machine.
Result<std::unique_ptr<Ops>> make_named_backend(const BackendOptions& options, std::string_view field);

}  // namespace deepinfer
