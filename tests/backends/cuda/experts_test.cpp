// Mixture of experts on the device: against the reference in plain C++, and row for row the same bits in any company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "backends/cuda/cuda_ops.h"
#include "ops/ops.h"
#include "ops/random_data.h"

namespace deepinfer::cuda {
namespace {

using Format = LinearWeight::Format;

struct Shape {
  int64_t d, width;
  int experts, top_k;
  int64_t rows;  // that the reference computes
};

// Operands in the memory of the operations.
class OnDevice {
 public:
  explicit OnDevice(Memory& memory) : memory_(memory) {}
  ~OnDevice() {
    for (const auto& [data, bytes] : allocated_) memory_.release(data, bytes);
  }
  OnDevice(const OnDevice&) = delete;

  template <typename T>
  T* room(size_t count) {
    const uint64_t bytes = std::max<uint64_t>(count * sizeof(T), 256);
    Result<std::byte*> data = memory_.allocate(bytes);
    EXPECT_TRUE(data.ok()) << data.status().to_string();
    allocated_.emplace_back(*data, bytes);
    return reinterpret_cast<T*>(*data);
  }
  template <typename T>
  T* copy(const T* from, size_t count) {
    T* const to = room<T>(count);
    memory_.write(to, from, count * sizeof(T));
    return to;
  }
  LinearWeight weight(const OwnedWeight& host) {
    LinearWeight view = host.view();
    view.data = copy(host.data.data(), host.data.size());
    view.scale = copy(host.scale.data(), host.scale.size());
    return view;
  }

 private:
  Memory& memory_;
  std::vector<std::pair<std::byte*, uint64_t>> allocated_;
};

struct Step {
  Matrix<bf16> x;
  Matrix<int32_t> expert;
  Matrix<float> weight;
};

class ExpertsTest : public testing::TestWithParam<Shape> {
 protected:
  static constexpr int64_t kRows = 700;

  void SetUp() override {
    Result<std::unique_ptr<Ops>> ops = make_cuda_ops("sm90");
    if (!ops.ok()) GTEST_SKIP() << ops.status().to_string();
    ops_ = std::move(ops).value();
    const Shape& s = GetParam();
    ASSERT_TRUE(ops_->prepare(limits()).ok());
    RandomData random(static_cast<uint64_t>(s.d * 31 + s.width));
    device_ = std::make_unique<OnDevice>(ops_->memory());
    for (int e = 0; e <= s.experts; ++e) {
      const Format format = e < s.experts ? Format::kFp4 : Format::kFp8;
      owned_.push_back(random.weight(format, s.width, s.d));
      owned_.push_back(random.weight(format, s.width, s.d));
      owned_.push_back(random.weight(format, s.d, s.width));
    }
    for (size_t i = 0; i < owned_.size(); i += 3) {
      host_.push_back({owned_[i].view(), owned_[i + 1].view(), owned_[i + 2].view()});
      there_.push_back({device_->weight(owned_[i]), device_->weight(owned_[i + 1]), device_->weight(owned_[i + 2])});
    }
    all_ = {random.activations(kRows, s.d), Matrix<int32_t>(kRows, s.top_k), Matrix<float>(kRows, s.top_k)};
    for (int64_t m = 0; m < kRows; ++m) {
      // Most rows choose the last expert, so that it meets many rows and others few.
      const auto order = random.shuffled(s.experts - 1);
      for (int k = 0; k < s.top_k; ++k) {
        all_.expert.row(m)[k] = k == 0 && m % 5 != 0 ? s.experts - 1 : static_cast<int32_t>(order[k]);
        all_.weight.row(m)[k] = 0.1f + 0.01f * static_cast<float>(random.below(100));
      }
    }
    const std::unique_ptr<Ops> reference = make_reference_ops();
    ASSERT_TRUE(reference->prepare(limits()).ok());
    reference->quantize_activation({all_.x.view(), all_.x.view()});
  }

  OpsLimits limits() const {
    const Shape& s = GetParam();
    OpsLimits limits;
    limits.rows = kRows;
    limits.max_k = limits.max_n = std::max(s.d, s.width);
    limits.experts = s.experts;
    limits.experts_per_token = s.top_k;
    limits.expert_width = s.width;
    limits.hidden = s.d;
    return limits;
  }

  Step pick(const std::vector<int64_t>& rows) const {
    const auto count = static_cast<int64_t>(rows.size());
    Step step{Matrix<bf16>(count, all_.x.columns()), Matrix<int32_t>(count, all_.expert.columns()),
              Matrix<float>(count, all_.weight.columns())};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t m = rows[static_cast<size_t>(i)];
      std::copy_n(all_.x.row(m), step.x.columns(), step.x.row(i));
      std::copy_n(all_.expert.row(m), step.expert.columns(), step.expert.row(i));
      std::copy_n(all_.weight.row(m), step.weight.columns(), step.weight.row(i));
    }
    return step;
  }

  MixtureOfExperts op_of(const Step& step, Matrix<bf16>& y, const std::vector<ExpertWeights>& experts) const {
    return {.x = step.x.view(),
            .expert = step.expert.view(),
            .weight = step.weight.view(),
            .experts = experts.data(),
            .expert_count = GetParam().experts,
            .shared = experts.back(),
            .limit = 10,
            .y = y.view()};
  }

  // y of some rows, computed as one step on the device.
  Matrix<bf16> compute(const std::vector<int64_t>& rows) {
    const Step step = pick(rows);
    Matrix<bf16> y(step.x.rows(), step.x.columns());
    MixtureOfExperts op = op_of(step, y, there_);
    OnDevice operands(ops_->memory());
    const auto count = [](const auto& matrix) { return static_cast<size_t>(matrix.rows() * matrix.columns()); };
    op.x.data = operands.copy(step.x.row(0), count(step.x));
    op.expert.data = operands.copy(step.expert.row(0), count(step.expert));
    op.weight.data = operands.copy(step.weight.row(0), count(step.weight));
    const std::vector<bf16> poison(count(y), bf16{0x7fc1});
    op.y.data = operands.copy(poison.data(), poison.size());
    ops_->mixture_of_experts(op);
    ops_->memory().read(y.row(0), op.y.data, count(y) * sizeof(bf16));
    EXPECT_TRUE(ops_->health().ok()) << ops_->health().to_string();
    return y;
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<OnDevice> device_;
  std::vector<OwnedWeight> owned_;
  std::vector<ExpertWeights> host_, there_;  // the shared expert last
  Step all_{Matrix<bf16>(0, 0), Matrix<int32_t>(0, 0), Matrix<float>(0, 0)};
};

TEST_P(ExpertsTest, AgreesWithTheReference) {
  std::vector<int64_t> rows(static_cast<size_t>(GetParam().rows));
  std::iota(rows.begin(), rows.end(), 0);
  const Matrix<bf16> got = compute(rows);
  const Step step = pick(rows);
  Matrix<bf16> expected(got.rows(), got.columns());
  const std::unique_ptr<Ops> reference = make_reference_ops();
  ASSERT_TRUE(reference->prepare(limits()).ok());
  reference->mixture_of_experts(op_of(step, expected, host_));
  double worst = 0;
  for (int64_t m = 0; m < got.rows(); ++m) {
    double xy = 0, xx = 0, yy = 0;
    for (int64_t i = 0; i < got.columns(); ++i) {
      const double x = to_float(got.row(m)[i]), y = to_float(expected.row(m)[i]);
      xy += x * y;
      xx += x * x;
      yy += y * y;
    }
    const double error = xx + yy == 0 ? 0 : 1 - 2 * xy / (xx + yy);
    worst = std::isnan(error) ? 1 : std::max(worst, error);
  }
  RecordProperty("scale_free_error", std::to_string(worst));
  std::printf("scale-free error %.3g\n", worst);
  EXPECT_LT(worst, 1e-5);
}

TEST_P(ExpertsTest, ARowHasItsBitsInAnyCompany) {
  std::vector<int64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  const Matrix<bf16> all = compute(rows);
  RandomData random(3);
  for (const int64_t count : {1, 2, 7, 8, 9, 33, 200, 256, 257}) {
    for (int repeat = 0; repeat < (count < 10 ? 4 : 1); ++repeat) {
      std::vector<int64_t> some = random.shuffled(kRows);
      some.resize(static_cast<size_t>(count));
      const Matrix<bf16> y = compute(some);
      int64_t wrong = 0;
      for (int64_t i = 0; i < count; ++i)
        wrong += std::memcmp(y.row(i), all.row(some[static_cast<size_t>(i)]),
                             static_cast<size_t>(y.columns()) * sizeof(bf16)) != 0;
      EXPECT_EQ(wrong, 0) << "of " << count << " rows differ";
    }
  }
}

// Of the released model, of the demonstration model, of its draft, and with widths that fill no chunk.
INSTANTIATE_TEST_SUITE_P(Shapes, ExpertsTest,
                         testing::Values(Shape{5120, 2304, 5, 3, 3}, Shape{256, 128, 16, 4, 40},
                                         Shape{256, 128, 8, 2, 40}, Shape{640, 288, 7, 3, 40}, Shape{32, 32, 3, 2, 40},
                                         Shape{1152, 1440, 9, 6, 20}),
                         [](const auto& info) {
                           return std::to_string(info.param.d) + "x" + std::to_string(info.param.width) + "of" +
                                  std::to_string(info.param.experts);
                         });

}  // namespace
}  // namespace deepinfer::cuda
