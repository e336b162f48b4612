// The CUDA paths that this machine's GPU has, as parameters of suites; none where there is no GPU.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/cuda_ops.h"
#include "ops/ops_backend.h"

namespace deepinfer {

inline std::unique_ptr<Ops> make_cuda_path(const std::string& path) {
  auto ops = make_cuda_ops(path);
  DI_CHECK(ops.ok(), ops.status().message());
  return std::move(ops).value();
}

inline std::vector<OpsBackend> cuda_backends() {
  std::vector<OpsBackend> backends;
  for (const std::string path : {"any", "sm90"}) {
    if (make_cuda_ops(path).ok()) backends.push_back({"cuda_" + path, [path] { return make_cuda_path(path); }});
  }
  return backends;
}

// A test of every program whose suites are empty without a GPU: says why nothing ran.
inline void expect_gpu_or_skip() {
  const Result<std::unique_ptr<Ops>> ops = make_cuda_ops();
  if (!ops.ok()) GTEST_SKIP() << ops.status().to_string();
  EXPECT_TRUE((*ops)->name().starts_with("cuda/"));
}

}  // namespace deepinfer
