// Products with dense weights on Hopper against the reference in plain C++, and the same rows in steps of every size.
#include "backends/cuda/kernels/products/sm90_products.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/launch/device_buffer.h"
#include "ops/ops.h"
#include "ops/random_data.h"

namespace deepinfer::cuda {
namespace {

using Format = LinearWeight::Format;

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

DeviceBuffer room(int64_t bytes) {
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status().to_string();
  check(cudaMemset(buffer->data(), 0xff, static_cast<size_t>(bytes)));
  return std::move(buffer).value();
}

struct Shape {
  Format format;
  int64_t n, k;
  int groups = 1;
};

// A weight and rows of x on the device.
struct Operands {
  Operands(const Shape& shape_, const OwnedWeight& weight, const Matrix<bf16>& x)
      : shape(shape_),
        rows(x.rows()),
        data(on_device(weight.data.data(), weight.data.size())),
        scales(on_device(weight.scale.data(), weight.scale.size())),
        x_data(on_device(x.row(0), static_cast<size_t>(x.rows() * x.columns()))),
        // The largest step goes in parts.
        image(room(product_scratch_bytes(std::min<int64_t>(x.rows(), 200), x.columns()))),
        sums(room(kProductSumBytes)) {}

  // Of rows [first, first + count) as a step of their own; bf16 results as bits in floats.
  std::vector<float> product(int64_t first, int64_t count, bool fp32 = true) const {
    const int64_t size = count * shape.n, bytes = size * (fp32 ? 4 : 2);
    Result<DeviceBuffer> out = DeviceBuffer::allocate(bytes);
    EXPECT_TRUE(out.ok());
    check(cudaMemset(out->data(), 0xff, static_cast<size_t>(bytes)));
    const int64_t width = shape.groups * shape.k;
    Product p;
    p.x = {x_data.as<bf16>() + first * width, count, width};
    p.weight = {shape.format, shape.n, shape.k, data.data(), scales.as<uint8_t>()};
    p.groups = shape.groups;
    if (fp32) {
      p.y32 = {out->as<float>(), count, shape.n};
    } else {
      p.y = {out->as<bf16>(), count, shape.n};
    }
    const Status status = sm90_product(p, {image.data(), image.bytes(), sums.as<float>(), sums.bytes()}, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
    check(cudaDeviceSynchronize());
    std::vector<float> y(static_cast<size_t>(size));
    if (fp32) {
      check(cudaMemcpy(y.data(), out->data(), y.size() * 4, cudaMemcpyDeviceToHost));
    } else {
      std::vector<bf16> narrow(y.size());
      check(cudaMemcpy(narrow.data(), out->data(), y.size() * 2, cudaMemcpyDeviceToHost));
      for (size_t i = 0; i < y.size(); ++i) y[i] = to_float(narrow[i]);
    }
    return y;
  }

  Shape shape;
  int64_t rows;
  DeviceBuffer data, scales, x_data, image, sums;
};

class Sm90Products : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    const Result<Device> device = current_device();
    if (!device.ok() || device->capability != 90) GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }
};

TEST_P(Sm90Products, AgreesWithTheReferenceAndAnyCompany) {
  const Shape shape = GetParam();
  const auto [format, n, k, groups] = shape;
  RandomData random(static_cast<uint64_t>(n * 7919 + k));
  const OwnedWeight weight = random.weight(format, n, k);
  constexpr int64_t kRows = 300, kCompared = 6;
  Matrix<bf16> x = random.activations(kRows, groups * k);
  const std::unique_ptr<Ops> reference = make_reference_ops();
  OpsLimits limits;
  limits.rows = kRows;
  limits.max_k = groups * k;
  limits.max_n = n;
  ASSERT_TRUE(reference->prepare(limits).ok());
  if (format == Format::kFp8) reference->quantize_activation({x.view(), x.view()});
  const Operands operands(shape, weight, x);
  const std::vector<float> all = operands.product(0, kRows);

  double worst = 0;
  for (int group = 0; group < groups; ++group) {
    const int64_t of_group = n / groups;
    Matrix<float> expected(kCompared, of_group);
    const LinearWeight rows = groups == 1 ? weight.view() : weight.view().rows(group * of_group, of_group);
    const MatrixView<const bf16> some = x.view().rows_from(0, kCompared);
    reference->matmul({some.columns_from(group * k, k), rows, {}, expected.view()});
    for (int64_t row = 0; row < kCompared; ++row) {
      double difference = 0, size = 0;
      for (int64_t i = 0; i < of_group; ++i) {
        const double e = expected.row(row)[i], got = all[static_cast<size_t>(row * n + group * of_group + i)];
        difference += (got - e) * (got - e);
        size += e * e;
      }
      ASSERT_FALSE(std::isnan(difference)) << "row " << row;
      if (size == 0) {
        EXPECT_EQ(difference, 0) << "row " << row;
      } else {
        worst = std::max(worst, std::sqrt(difference / size));
      }
    }
  }
  // fp32 sums of up to 15,360 terms in two orders.
  EXPECT_LT(worst, 3e-6);
  RecordProperty("relative_error", std::to_string(worst));

  for (const int64_t count : {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129, 192, 299}) {
    for (const int64_t first : {int64_t{0}, (kRows - count) / 2, kRows - count}) {
      const std::vector<float> some = operands.product(first, count);
      EXPECT_EQ(std::memcmp(some.data(), all.data() + first * n, some.size() * 4), 0)
          << "rows " << first << " to " << first + count;
    }
  }
  for (const int64_t count : {3, 20, 40, 140}) {
    const std::vector<float> some = operands.product(5, count, false);
    int64_t different = 0;
    for (size_t i = 0; i < some.size(); ++i)
      different += some[i] == to_float(to_bf16(all[static_cast<size_t>(5 * n) + i])) ? 0 : 1;
    EXPECT_EQ(different, 0) << count << " rows in bf16";
  }
}

TEST_P(Sm90Products, NotANumberStaysInItsRow) {
  const Shape shape = GetParam();
  const auto [format, n, k, groups] = shape;
  RandomData random(static_cast<uint64_t>(n + k));
  const OwnedWeight weight = random.weight(format, n, k);
  for (const int64_t rows : {8, 20, 70}) {
    Matrix<bf16> x = random.activations(rows, groups * k);
    const std::vector<float> clean = Operands(shape, weight, x).product(0, rows);
    x.row(3)[k / 2] = bf16{0x7fc0};
    x.row(5)[k - 1] = bf16{0x7f80};
    const std::vector<float> dirty = Operands(shape, weight, x).product(0, rows);
    for (int64_t row = 0; row < rows; ++row) {
      if (row == 3 || row == 5) continue;
      EXPECT_EQ(std::memcmp(clean.data() + row * n, dirty.data() + row * n, static_cast<size_t>(n) * 4), 0) << row;
    }
    for (int64_t i = 0; i < n / groups; ++i) EXPECT_TRUE(std::isnan(dirty[static_cast<size_t>(3 * n + i)]));
  }
}

// Of the released model (some with fewer outputs), of the demonstration model, and with last tiles that are not full.
INSTANTIATE_TEST_SUITE_P(
    Shapes, Sm90Products,
    testing::Values(Shape{Format::kFp8, 1280, 5120}, Shape{Format::kFp8, 512, 5120}, Shape{Format::kFp8, 4096, 1280},
                    Shape{Format::kFp8, 1024, 4096, 4}, Shape{Format::kFp8, 640, 8192}, Shape{Format::kFp8, 5120, 2304},
                    Shape{Format::kFp8, 96, 15360}, Shape{Format::kFp8, 96, 32}, Shape{Format::kFp8, 100, 256},
                    Shape{Format::kFp8, 32, 96}, Shape{Format::kFp8, 8, 1056}, Shape{Format::kFp8, 64, 640},
                    Shape{Format::kFp8, 256, 128, 2}, Shape{Format::kBf16, 384, 5120}, Shape{Format::kBf16, 1, 5376},
                    Shape{Format::kBf16, 301, 256}, Shape{Format::kBf16, 2048, 1280}),
    [](const auto& info) {
      return std::string(info.param.format == Format::kFp8 ? "Fp8" : "Bf16") + "_" + std::to_string(info.param.n) +
             "x" + std::to_string(info.param.k) + "x" + std::to_string(info.param.groups);
    });

}  // namespace
}  // namespace deepinfer::cuda
