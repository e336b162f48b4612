// The bits of a product do not change with the tensor-core tile that computes it: 2^20 rows, random and adversarial,
// through wgmma of every shape and mma.sync, either side for the weights, operands from shared memory or registers,
// stages of different depth, and grids of different size.  The exactness of the SM90 path stands on this.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/device_buffer.h"
#include "tensor_core_products.h"

namespace deepinfer::cuda {
namespace {

constexpr int64_t kTokenRows = int64_t{1} << 20;

double value_of(uint16_t bf16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16);
}

class TensorCoreBits : public testing::Test {
 protected:
  void SetUp() override {
    const Result<Device> device = current_device();
    if (!device.ok()) GTEST_SKIP() << device.status().to_string();
    if (device->capability != 90) GTEST_SKIP() << "needs compute capability 9.0";
    multiprocessors_ = device->multiprocessors;
    weights_ = buffer(int64_t{kProductWeights} * kProductK * 2);
    tokens_ = buffer(kTokenRows * kProductK * 2);
    first_ = buffer(kTokenRows * kProductWeights * 4);
    other_ = buffer(kTokenRows * kProductWeights * 4);
    counts_ = buffer(kRowKinds * 8);
    fill_operands(weights_.as<uint16_t>(), tokens_.as<uint16_t>(), kTokenRows);
    run(product_ways().front(), multiprocessors_, first_);
  }

  static DeviceBuffer buffer(int64_t bytes) {
    Result<DeviceBuffer> made = DeviceBuffer::allocate(bytes);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return std::move(made).value();
  }

  void run(const ProductWay& way, int blocks, const DeviceBuffer& out) const {
    cudaMemset(out.data(), 0xff, static_cast<size_t>(out.bytes()));
    way.launch(weights_.as<uint16_t>(), tokens_.as<uint16_t>(), kTokenRows, blocks, out.as<float>());
    const Status status = cuda_status(cudaDeviceSynchronize(), way.name);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  std::array<unsigned long long, kRowKinds> differences() const {
    std::array<unsigned long long, kRowKinds> counts{};
    cudaMemset(counts_.data(), 0, sizeof counts);
    count_differences(first_.as<float>(), other_.as<float>(), kTokenRows, counts_.as<unsigned long long>());
    const Status status =
        cuda_status(cudaMemcpy(counts.data(), counts_.data(), sizeof counts, cudaMemcpyDeviceToHost), "differences");
    EXPECT_TRUE(status.ok()) << status.to_string();
    return counts;
  }

  int multiprocessors_ = 0;
  DeviceBuffer weights_, tokens_, first_, other_, counts_;
};

// Not just equal among themselves: near the sums in double precision.
TEST_F(TensorCoreBits, AreNearTheExactSum) {
  constexpr int64_t kRows = 4 * kRowKinds;
  std::vector<uint16_t> weights(kProductWeights * kProductK), tokens(kRows * kProductK);
  std::vector<float> out(kRows * kProductWeights);
  cudaMemcpy(weights.data(), weights_.data(), weights.size() * 2, cudaMemcpyDeviceToHost);
  cudaMemcpy(tokens.data(), tokens_.data(), tokens.size() * 2, cudaMemcpyDeviceToHost);
  cudaMemcpy(out.data(), first_.data(), out.size() * 4, cudaMemcpyDeviceToHost);
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t w = 0; w < kProductWeights; ++w) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < kProductK; ++k) {
        const double term = value_of(tokens[static_cast<size_t>(row * kProductK + k)]) *
                            value_of(weights[static_cast<size_t>(w * kProductK + k)]);
        sum += term;
        size += std::abs(term);
      }
      // Each of the K / 16 instructions cuts its sum off at 24 bits of its largest term.
      const double bound = size * kProductK / 16 * std::ldexp(1.0, -24) + 1e-44;
      EXPECT_NEAR(out[static_cast<size_t>(row * kProductWeights + w)], sum, bound)
          << row_kind_name(static_cast<int>(row % kRowKinds)) << " row " << row << ", weight " << w;
    }
}

TEST_F(TensorCoreBits, DoNotChangeWithTileSideStageOrGrid) {
  for (const ProductWay& way : product_ways()) {
    for (const int blocks : {multiprocessors_, multiprocessors_ * 3, multiprocessors_ - 17}) {
      run(way, blocks, other_);
      const auto counts = differences();
      for (int kind = 0; kind < kRowKinds; ++kind)
        EXPECT_EQ(counts[static_cast<size_t>(kind)], 0u)
            << way.name << ", " << blocks << " blocks: " << row_kind_name(kind) << " rows";
    }
  }
}

}  // namespace
}  // namespace deepinfer::cuda
