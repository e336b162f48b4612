// The CPU paths that this machine can run, as parameters of the suites in tests/ops.
#pragma once

#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "ops/ops_backend.h"

namespace deepinfer {

inline std::unique_ptr<Ops> make_cpu_path(CpuIsa isa, int threads) {
  auto ops = make_cpu_ops({.threads = {.threads = threads, .pin = false}, .isa = isa});
  DI_CHECK(ops.ok(), ops.status().message());
  return std::move(ops).value();
}

inline bool machine_has(CpuIsa isa) {
  return make_cpu_ops({.threads = {.threads = 1}, .isa = isa}).ok();
}

inline std::vector<CpuIsa> machine_paths() {
  std::vector<CpuIsa> paths;
  for (CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAmx}) {
    if (machine_has(isa)) paths.push_back(isa);
  }
  return paths;
}

// Every path with one thread and with three: more than the cores of a small machine.
inline std::vector<OpsBackend> cpu_backends() {
  std::vector<OpsBackend> backends;
  for (CpuIsa isa : machine_paths()) {
    for (int threads : {1, 3}) {
      backends.push_back({"cpu_" + std::string(to_string(isa)) + "_threads" + std::to_string(threads),
                          [isa, threads] { return make_cpu_path(isa, threads); }});
    }
  }
  return backends;
}

}  // namespace deepinfer
