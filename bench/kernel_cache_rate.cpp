#include "bench/kernel_cache_rate.h"

#include <chrono>
#include <vector>

#include "backends/cpu/products/products.h"

namespace deepinfer::bench {
namespace {

using Format = LinearWeight::Format;

// 32 outputs of 16 KB in all, and what one thread needs to multiply with them.
class CachedProduct {
 public:
  CachedProduct(const cpu::ProductKernels& kernels, Format format) : kernels_(kernels) {
    const int64_t k = format == Format::kFp8 ? 512 : format == Format::kFp4 ? 1024 : 256;
    block_ = {.format = format == Format::kFp8   ? cpu::WeightFormat::kFp8
                        : format == Format::kFp4 ? cpu::WeightFormat::kFp4
                                                 : cpu::WeightFormat::kBf16,
              .data = nullptr,
              .scale = nullptr,
              .k = k,
              .outputs = 32};
    bytes_ = LinearWeight{.format = format, .n = 32, .k = k, .data = nullptr, .scale = nullptr}.bytes();
    memory_.resize(kCodes + kScales + kPacked + kernels.scratch_bytes(k) + 64);
    base_ = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
    for (size_t i = 0; i < kCodes; ++i) base_[i] = static_cast<std::byte>(i % 2 == 0 ? i * 37 : 0x3C);
    for (size_t i = 0; i < kScales; ++i) base_[kCodes + i] = static_cast<std::byte>(0x70 + i % 4);
    block_.data = reinterpret_cast<const uint8_t*>(base_);
    block_.scale = block_.data + kCodes;
    const std::vector<uint16_t> row(static_cast<size_t>(k), 0x3F80);
    const uint16_t* rows[] = {row.data()};
    kernels_.pack(block_.format, rows, 1, k, packed());
  }
  void multiply() {
    kernels_.multiply(block_, packed(), 1, {.fp32 = out_, .bf16 = nullptr, .stride = block_.outputs},
                      base_ + kCodes + kScales + kPacked);
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kCodes = 16384, kScales = 2048, kPacked = 4096;
  uint16_t* packed() { return reinterpret_cast<uint16_t*>(base_ + kCodes + kScales); }

  const cpu::ProductKernels& kernels_;
  cpu::WeightBlock block_;
  int64_t bytes_ = 0;
  std::vector<std::byte> memory_;
  std::byte* base_ = nullptr;
  float out_[32] = {};
};

}  // namespace

double sample_cache_rate(CpuIsa isa, LinearWeight::Format format, ThreadPool& pool) {
  constexpr int64_t kCalls = 40000;
  const cpu::ProductKernels& kernels = cpu::product_kernels(isa);
  std::vector<CachedProduct> products;
  products.reserve(static_cast<size_t>(pool.threads()));
  for (int thread = 0; thread < pool.threads(); ++thread) products.emplace_back(kernels, format);
  const auto start = std::chrono::steady_clock::now();
  pool.parallel_for(pool.threads(), [&](int64_t task, int) {
    for (int64_t call = 0; call < kCalls; ++call) products[static_cast<size_t>(task)].multiply();
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return static_cast<double>(products[0].bytes() * kCalls * pool.threads()) / seconds;
}

}  // namespace deepinfer::bench
