// Steps in the released dimensions, which the kernels for Hopper take: as graphs with overlapping launches they have
// the bits of kernels that run one behind the end of the other.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/any_ops.h"
#include "backends/cuda_backends.h"
#include "bench/released_config.h"
#include "bench/synthetic_layers.h"

namespace deepinfer {
namespace {

constexpr int kLayers = 6, kExperts = 24;
constexpr bench::SyntheticPlan kPlan{.rows = 160, .sequences = 40, .context = 2560, .expert_layers = kLayers};

// Layers of the released dimensions with weights that depend on their names alone.
class Network {
 public:
  Network(const std::string& path, bool use_graphs) : ops_(make_cuda_ops(path, use_graphs).value()) {
    const deepseek_v41::Config released = deepseek_v41::parse_config(bench::released_config_json(), "released").value();
    layers_ = bench::SyntheticLayers::make(bench::layer_slice(released, kLayers, kExperts), kPlan, *ops_).value();
  }
  void start(int64_t sequences) {
    const Status caches = layers_->make_caches(sequences, kPlan.context);
    DI_CHECK(caches.ok(), caches.message());
    layers_->fill_records();
  }
  // Logits of the last row of each sequence.
  std::vector<float> step(int64_t position, int64_t rows, int64_t sequences) {
    const MatrixView<float> logits = layers_->run(position, rows, sequences, 1);
    std::vector<float> values(static_cast<size_t>(logits.rows * logits.columns));
    ops_->memory().read(values.data(), logits.data, values.size() * sizeof(float));
    const Status health = ops_->health();
    DI_CHECK(health.ok(), health.message());
    return values;
  }
  cuda::LaunchCounts counts() { return static_cast<cuda::AnyOps&>(*ops_).launch_counts(); }

 private:
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<bench::SyntheticLayers> layers_;
};

class ReleasedStep : public testing::TestWithParam<std::string> {};

TEST_P(ReleasedStep, GraphsHaveTheBitsOfSingleKernels) {
  Network graphs(GetParam(), true), kernels(GetParam(), false);
  const auto same_step = [&](int64_t position, int64_t rows, int64_t sequences) {
    const std::vector<float> a = graphs.step(position, rows, sequences), b = kernels.step(position, rows, sequences);
    ASSERT_EQ(a.size(), b.size());
    ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0)
        << rows << " rows of " << sequences << " sequences at position " << position;
  };
  for (const int64_t sequences : {1, 2, 5, 8, 9, 16, 40}) {
    graphs.start(sequences);
    kernels.start(sequences);
    for (int64_t i = 0; i < 12; ++i) same_step(2000 + i, 1, sequences);
    if (HasFatalFailure()) return;
  }
  graphs.start(1);
  kernels.start(1);
  for (const int64_t rows : {2, 6, 33, 64, 160}) same_step(128, rows, 1);
  EXPECT_GT(graphs.counts().graphs, 7 * 8);
  EXPECT_EQ(kernels.counts().graphs, 0);
}

std::vector<std::string> paths() {
  std::vector<std::string> names;
  for (const char* path : {"any", "sm90"})
    if (make_cuda_ops(path).ok()) names.emplace_back(path);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Cuda, ReleasedStep, testing::ValuesIn(paths()), [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReleasedStep);

TEST(ReleasedSteps, HasAGpu) {
  expect_gpu_or_skip();
}

}  // namespace
}  // namespace deepinfer
