// Matrix products of the CPU paths: every stored value is read exactly, sums lie as near the exact ones as fp32 allows,
// and no bit depends on the rows beside, the rows of the weight beside, or the number of threads.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu_backends.h"
#include "ops/random_data.h"
#include "ops/reference/weight_rows.h"

namespace deepinfer {
namespace {

using Format = LinearWeight::Format;
constexpr int64_t kRows = 300;  // more than one block of activation rows

class CpuProducts : public testing::TestWithParam<CpuIsa> {
 protected:
  std::unique_ptr<Ops> make(int threads) {
    auto ops = make_cpu_path(GetParam(), threads);
    EXPECT_TRUE(ops->prepare({.rows = kRows, .max_k = 8192, .max_n = 8192}).ok());
    return ops;
  }
};

// Scratch memory of 2^52 bytes: more than an address space holds.
TEST_P(CpuProducts, RefusesLimitsThatNoMemoryHolds) {
  const Status status =
      make_cpu_path(GetParam(), 1)->prepare({.rows = int64_t{1} << 20, .max_k = int64_t{1} << 30, .max_n = 32});
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.to_string();
}

Matrix<float> multiply(Ops& ops, MatrixView<const bf16> x, const LinearWeight& weight) {
  Matrix<float> y(x.rows, weight.n, NAN);
  ops.matmul({.x = x, .weight = weight, .y = {}, .y32 = y.view()});
  return y;
}

Matrix<bf16> rounded_activations(Ops& ops, RandomData& random, int64_t rows, int64_t k) {
  Matrix<bf16> x = random.activations(rows, k);
  ops.quantize_activation({.x = x.view(), .y = x.view()});
  return x;
}

const char* name_of(Format format) {
  return format == Format::kFp8 ? "FP8" : format == Format::kFp4 ? "FP4" : "BF16";
}

// Largest |y - exact| / sum |x w|, in units of 2^-24.
double worst_error(const Matrix<float>& y, const Matrix<bf16>& x, const LinearWeight& weight) {
  double worst = 0;
  std::vector<float> w(static_cast<size_t>(weight.k));
  for (int64_t n = 0; n < weight.n; ++n) {
    reference::decode_weight_row(weight, n, w.data());
    for (int64_t m = 0; m < x.rows(); ++m) {
      double exact = 0, size = 0;
      for (int64_t i = 0; i < weight.k; ++i) {
        const double product = static_cast<double>(to_float(x.row(m)[i])) * w[i];
        exact += product;
        size += std::abs(product);
      }
      if (size == 0) {
        EXPECT_EQ(y.row(m)[n], 0);
      } else {
        worst = std::max(worst, std::abs(y.row(m)[n] - exact) / size * 0x1p24);
      }
    }
  }
  return worst;
}

TEST_P(CpuProducts, NearTheExactSum) {
  auto ops = make(2);
  struct Shape {
    int64_t n, k, rows;
  };
  for (Format format : {Format::kFp8, Format::kFp4, Format::kBf16}) {
    for (const Shape& shape : {Shape{96, 5120, 3}, Shape{40, 8192, 20}, Shape{33, 2304, 1}, Shape{70, 1280, 40},
                               Shape{17, 96, 5}, Shape{1, 32, 2}, Shape{130, 160, 65}, Shape{64, 224, 1}}) {
      RandomData random(static_cast<uint64_t>(shape.n * shape.k));
      const OwnedWeight weight = random.weight(format, shape.n, shape.k);
      const Matrix<bf16> x = rounded_activations(*ops, random, shape.rows, shape.k);
      const Matrix<float> y = multiply(*ops, x.view(), weight.view());
      // A lane's chain of c additions errs by sqrt(c) half steps of its sum; lanes halve that again.
      EXPECT_LE(worst_error(y, x, weight.view()), 5.0)
          << name_of(format) << " n " << shape.n << " k " << shape.k << " rows " << shape.rows;
    }
  }
}

// A row of zeros but for one 1 reads a column of the weight.
TEST_P(CpuProducts, EveryStoredValueIsReadExactly) {
  auto ops = make(1);
  struct Case {
    Format format;
    int codes, first_scale, last_scale;
  };
  for (const Case& c : {Case{Format::kFp8, 256, 10, 245}, Case{Format::kFp4, 16, 2, 250}}) {
    const int64_t k = 320, n = 32 * ((c.last_scale - c.first_scale) / 10 + 1);
    OwnedWeight weight{c.format, n, k, {}, {}};
    RandomData random(7);
    const bool fp8 = c.format == Format::kFp8;
    weight.data.resize(static_cast<size_t>(fp8 ? n * k : n * k / 2));
    for (size_t i = 0; i < weight.data.size(); ++i) {
      weight.data[i] = static_cast<uint8_t>(fp8 ? i * 37 : random.word());
      if (fp8 && (weight.data[i] & 0x7F) == 0x7F) weight.data[i] = 0x80;
    }
    weight.scale.resize(static_cast<size_t>((fp8 ? n / 32 : n) * k / 32));
    for (uint8_t& scale : weight.scale) {
      scale = static_cast<uint8_t>(c.first_scale + random.below(c.last_scale - c.first_scale + 1));
    }
    for (int64_t rows : {int64_t{1}, k}) {
      Matrix<bf16> x(rows, k);
      for (int64_t i = 0; i < rows; ++i) x.row(i)[rows == 1 ? 77 : i] = to_bf16(1.0f);
      const Matrix<float> y = multiply(*ops, x.view(), weight.view());
      std::vector<float> w(static_cast<size_t>(k));
      int64_t wrong = 0;
      for (int64_t j = 0; j < n; ++j) {
        reference::decode_weight_row(weight.view(), j, w.data());
        for (int64_t i = 0; i < rows; ++i) wrong += y.row(i)[j] != w[rows == 1 ? 77 : i];
      }
      EXPECT_EQ(wrong, 0) << name_of(c.format) << " rows " << rows;
    }
  }
}

// The bits of a large batch on three threads, again in smaller batches, on other threads, and with a part of the
// weight.
TEST_P(CpuProducts, BitsDoNotDependOnCompany) {
  const auto three = make(3), two = make(2), one = make(1);
  struct Shape {
    Format format;
    int64_t n, k;
  };
  for (const Shape& shape : {Shape{Format::kFp8, 161, 1280}, Shape{Format::kFp8, 64, 96}, Shape{Format::kFp4, 97, 2304},
                             Shape{Format::kFp4, 130, 608}, Shape{Format::kBf16, 131, 512}}) {
    SCOPED_TRACE(std::string(name_of(shape.format)) + " n " + std::to_string(shape.n));
    RandomData random(static_cast<uint64_t>(shape.n));
    const OwnedWeight weight = random.weight(shape.format, shape.n, shape.k);
    const Matrix<bf16> x = rounded_activations(*one, random, kRows, shape.k);
    const Matrix<float> all = multiply(*three, x.view(), weight.view());
    const auto expect_same = [&](const Matrix<float>& part, int64_t first_row, int64_t first_output) {
      int64_t different = 0;
      for (int64_t m = 0; m < part.rows(); ++m) {
        different +=
            !std::equal(part.row(m), part.row(m) + part.columns(), all.row(first_row + m) + first_output,
                        [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); });
      }
      EXPECT_EQ(different, 0) << part.rows() << " rows from " << first_row << ", outputs from " << first_output;
    };
    for (int64_t rows : {1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12, 13, 15, 16,  17,  23,
                         24, 25, 31, 32, 33, 34, 47, 48, 49, 50, 64, 95, 97, 145, 257, 300}) {
      const int64_t first = random.below(kRows - rows + 1);
      expect_same(multiply(rows % 2 == 0 ? *one : *two, x.view().rows_from(first, rows), weight.view()), first, 0);
    }
    for (int64_t rows : {1, 7, 40}) {
      const LinearWeight part = weight.view().rows(32, shape.n - 35);
      expect_same(multiply(*two, x.view().rows_from(0, rows), part), 0, 32);
    }
  }
}

// Every code of an FP4 scale, NaN's included: what it gives need not have a meaning, but is the same for every number
// of rows.
TEST_P(CpuProducts, Fp4ScalesOfAnySizeDependOnNoCompany) {
  auto ops = make(2);
  RandomData random(13);
  const int64_t n = 70, k = 416, rows = 70;
  OwnedWeight weight = random.weight(Format::kFp4, n, k);
  for (uint8_t& scale : weight.scale) scale = static_cast<uint8_t>(random.below(256));
  for (size_t i = 0; i < weight.scale.size(); i += 7) weight.scale[i] = static_cast<uint8_t>(random.below(3));
  const Matrix<bf16> x = rounded_activations(*ops, random, rows, k);
  const Matrix<float> all = multiply(*ops, x.view(), weight.view());
  for (int64_t count : {1, 2, 5, 6, 8, 9, 20, 33}) {
    const int64_t first = random.below(rows - count + 1);
    const Matrix<float> part = multiply(*ops, x.view().rows_from(first, count), weight.view());
    int64_t different = 0;
    for (int64_t m = 0; m < count; ++m) {
      for (int64_t i = 0; i < n; ++i) {
        const float a = part.row(m)[i], b = all.row(first + m)[i];
        different += std::bit_cast<uint32_t>(a) != std::bit_cast<uint32_t>(b) && !(std::isnan(a) && std::isnan(b));
      }
    }
    EXPECT_EQ(different, 0) << count << " rows from " << first;
  }
}

// Bytes that end where a page without access begins.
class GuardedBytes {
 public:
  explicit GuardedBytes(const std::vector<uint8_t>& bytes) : mapped_((bytes.size() + 2 * kPage - 1) / kPage * kPage) {
    base_ = static_cast<uint8_t*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    data_ = base_ + mapped_ - kPage - bytes.size();
    std::copy(bytes.begin(), bytes.end(), data_);
    EXPECT_EQ(mprotect(base_ + mapped_ - kPage, kPage, PROT_NONE), 0);
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  const uint8_t* data() const { return data_; }

 private:
  static constexpr size_t kPage = 4096;
  size_t mapped_;
  uint8_t* base_;
  uint8_t* data_;
};

// A weight may be the last of a mapped file: nothing behind it is read.
TEST_P(CpuProducts, ReadsNothingBehindAWeight) {
  auto ops = make(1);
  RandomData random(17);
  for (Format format : {Format::kFp8, Format::kFp4, Format::kBf16}) {
    for (int64_t k : {32, 96, 128, 608, 640, 1024}) {
      const int64_t n = 35;
      const OwnedWeight weight = random.weight(format, n, k);
      const GuardedBytes data(weight.data), scale(weight.scale);
      LinearWeight guarded = weight.view();
      guarded.data = data.data();
      if (guarded.scale != nullptr) guarded.scale = scale.data();
      for (int64_t rows : {1, 2, 7, 8, 21}) {
        const Matrix<bf16> x = rounded_activations(*ops, random, rows, k);
        const Matrix<float> y = multiply(*ops, x.view(), guarded), expected = multiply(*ops, x.view(), weight.view());
        for (int64_t m = 0; m < rows; ++m) EXPECT_TRUE(std::equal(y.row(m), y.row(m) + n, expected.row(m)));
      }
    }
  }
}

// Views with gaps between rows, and bf16 results: the fp32 sums rounded once.
TEST_P(CpuProducts, StridesAndRounding) {
  auto ops = make(2);
  RandomData random(11);
  const int64_t k = 256, n = 90, rows = 21;
  const OwnedWeight weight = random.weight(Format::kBf16, n, k);
  const Matrix<bf16> wide = random.bf16s(rows, k + 40, 0, 1);
  const MatrixView<const bf16> x = wide.view().columns_from(8, k);
  const Matrix<float> sums = multiply(*ops, x, weight.view());
  Matrix<bf16> y(rows, n + 7, bf16{0x1234});
  Matrix<float> y32(rows, n + 3, 5.0f);
  ops->matmul({.x = x, .weight = weight.view(), .y = y.view().columns_from(3, n), .y32 = {}});
  ops->matmul({.x = x, .weight = weight.view(), .y = {}, .y32 = y32.view().columns_from(2, n)});
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(y.row(m)[3 + i], to_bf16(sums.row(m)[i]));
      EXPECT_EQ(y32.row(m)[2 + i], sums.row(m)[i]);
    }
    for (int64_t i : {0, 1, 2}) EXPECT_EQ(y.row(m)[i], bf16{0x1234});
    for (int64_t i = n + 3; i < n + 7; ++i) EXPECT_EQ(y.row(m)[i], bf16{0x1234});
    EXPECT_EQ(y32.row(m)[1], 5.0f);
    EXPECT_EQ(y32.row(m)[n + 2], 5.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuProducts, testing::ValuesIn(machine_paths()),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace deepinfer
