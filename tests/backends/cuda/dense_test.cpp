// Products with dense FP8 weights on the device against the reference in plain C++.
#include "backends/cuda/kernels/dense/dense.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/layout/strip_order.h"
#include "ops/ops.h"
#include "ops/random_data.h"

namespace deepinfer::cuda {
namespace {

void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorName(error);
}

template <typename T>
DeviceBuffer on_device(const T* data, size_t count) {
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(static_cast<int64_t>(count * sizeof(T)));
  EXPECT_TRUE(buffer.ok()) << buffer.status().to_string();
  check(cudaMemcpy(buffer->data(), data, count * sizeof(T), cudaMemcpyHostToDevice));
  return std::move(buffer).value();
}

// A weight on both sides.
struct Pair {
  OwnedWeight host;
  DeviceBuffer data, scales;
  DenseWeight device;
};

Pair weight_pair(RandomData& random, int64_t n, int64_t k) {
  Pair pair{random.weight(LinearWeight::Format::kFp8, n, k), {}, {}, {}};
  std::vector<uint8_t> data(static_cast<size_t>(strip_order_bytes(n, k)));
  std::vector<uint8_t> scales(static_cast<size_t>(strip_order_scales(n, k)));
  const Status status = to_strip_order(pair.host.view(), data, scales);
  EXPECT_TRUE(status.ok()) << status.to_string();
  pair.data = on_device(data.data(), data.size());
  pair.scales = on_device(scales.data(), scales.size());
  pair.device = {pair.data.as<uint8_t>(), pair.scales.as<uint8_t>(), n, k};
  return pair;
}

// y32 of rows [first, first + count) of x alone.
std::vector<float> product(const Pair& weight, const Matrix<bf16>& x, int64_t first, int64_t count) {
  const int64_t k = weight.host.k, n = weight.host.n;
  const DeviceBuffer rows = on_device(x.row(first), static_cast<size_t>(count * k));
  std::vector<float> y(static_cast<size_t>(count * n));
  Result<DeviceBuffer> out = DeviceBuffer::allocate(static_cast<int64_t>(y.size() * 4));
  EXPECT_TRUE(out.ok());
  check(cudaMemset(out->data(), 0xff, y.size() * 4));
  DenseProduct p;
  p.x = rows.as<bf16>();
  p.rows = count;
  p.x_stride = k;
  p.weight = weight.device;
  p.y32 = out->as<float>();
  p.y_stride = n;
  const Status status = sm90_dense_decode(p, nullptr);
  EXPECT_TRUE(status.ok()) << status.to_string();
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(y.data(), out->data(), y.size() * 4, cudaMemcpyDeviceToHost));
  return y;
}

struct Shape {
  int64_t n, k;
};
class DenseDecode : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    const Result<Device> device = current_device();
    if (!device.ok() || device->capability != 90) GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }
};

TEST_P(DenseDecode, AgreesWithTheReferenceAndAnyCompany) {
  const auto [n, k] = GetParam();
  RandomData random(static_cast<uint64_t>(n * 7919 + k));
  const Pair weight = weight_pair(random, n, k);
  constexpr int64_t kRows = 16;
  Matrix<bf16> x = random.activations(kRows, k);
  const std::unique_ptr<Ops> reference = make_reference_ops();
  OpsLimits limits;
  limits.rows = kRows;
  limits.max_k = k;
  limits.max_n = n;
  ASSERT_TRUE(reference->prepare(limits).ok());
  reference->quantize_activation({x.view(), x.view()});
  Matrix<float> expected(kRows, n);
  reference->matmul({x.view(), weight.host.view(), {}, expected.view()});

  std::vector<float> all = product(weight, x, 0, kRows / 2);
  const std::vector<float> rest = product(weight, x, kRows / 2, kRows / 2);
  all.insert(all.end(), rest.begin(), rest.end());
  double worst = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double e = expected.row(row)[i], got = all[static_cast<size_t>(row * n + i)];
      difference += (got - e) * (got - e);
      size += e * e;
    }
    if (size == 0) {
      EXPECT_EQ(difference, 0) << "row " << row;
    } else {
      worst = std::max(worst, std::sqrt(difference / size));
    }
  }
  // fp32 sums of up to 8,192 terms in two orders.
  EXPECT_LT(worst, 2e-6);
  RecordProperty("relative_error", std::to_string(worst));

  for (const int64_t count : {1, 2, 3, 7, 8}) {
    for (int64_t first = 0; first + count <= kRows; ++first) {
      const std::vector<float> some = product(weight, x, first, count);
      ASSERT_EQ(std::memcmp(some.data(), all.data() + first * n, some.size() * 4), 0)
          << "rows " << first << " to " << first + count;
    }
  }
}

TEST_P(DenseDecode, NotANumberStaysInItsRow) {
  const auto [n, k] = GetParam();
  RandomData random(static_cast<uint64_t>(n + k));
  const Pair weight = weight_pair(random, n, k);
  Matrix<bf16> x = random.activations(8, k);
  const std::vector<float> clean = product(weight, x, 0, 8);
  x.row(3)[k / 2] = bf16{0x7fc0};
  x.row(5)[k - 1] = bf16{0x7f80};
  const std::vector<float> dirty = product(weight, x, 0, 8);
  for (int64_t row = 0; row < 8; ++row) {
    if (row == 3 || row == 5) continue;
    EXPECT_EQ(std::memcmp(clean.data() + row * n, dirty.data() + row * n, static_cast<size_t>(n) * 4), 0) << row;
  }
  for (int64_t i = 0; i < n; ++i) EXPECT_TRUE(std::isnan(dirty[static_cast<size_t>(3 * n + i)]));
}

// Of the released model, of the demonstration model, and with a last panel that is not full.
INSTANTIATE_TEST_SUITE_P(Shapes, DenseDecode,
                         testing::Values(Shape{1280, 5120}, Shape{512, 5120}, Shape{4096, 1280}, Shape{1024, 4096},
                                         Shape{640, 8192}, Shape{5120, 2304}, Shape{96, 32}, Shape{100, 256},
                                         Shape{32, 96}, Shape{8, 1056}, Shape{64, 640}),
                         [](const auto& info) {
                           return std::to_string(info.param.n) + "x" + std::to_string(info.param.k);
                         });

TEST(StripOrder, RefusesAScaleThatWouldOverflow) {
  RandomData random(1);
  OwnedWeight weight = random.weight(LinearWeight::Format::kFp8, 64, 64);
  weight.scale[3] = 135;
  std::vector<uint8_t> data(64 * 64), scales(4);
  const Status status = to_strip_order(weight.view(), data, scales);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("row 32, column 32"), std::string::npos) << status.message();
}

TEST(StripOrder, RefusesWeightsThatAreNoNumbers) {
  RandomData random(1);
  OwnedWeight weight = random.weight(LinearWeight::Format::kFp8, 64, 64);
  weight.data[70] = 0xff;
  std::vector<uint8_t> data(64 * 64), scales(4);
  const Status status = to_strip_order(weight.view(), data, scales);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("row 1, column 6"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace deepinfer::cuda
