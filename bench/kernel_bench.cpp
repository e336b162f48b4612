#include "bench/kernel_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "backends/cpu/peak_rate.h"
#include "bench/kernel_attention.h"
#include "bench/kernel_cache_rate.h"
#include "bench/kernel_weights.h"
#include "bench/machine_limits.h"
#include "bench/median.h"

namespace deepinfer::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Format = LinearWeight::Format;

// The released model's dimensions.
constexpr int64_t kHidden = 5120, kExpertWidth = 2304, kMaxRows = 2048;
constexpr int kTopK = 6;

struct ProductCase {
  const char* name;
  Format format;
  int64_t n, k;
  int groups = 1;
  bool fp32 = false;  // results are not rounded
};
constexpr ProductCase kDecodeCases[] = {
    {"wq_a", Format::kFp8, 1280, kHidden},
    {"wq_b", Format::kFp8, 32768, 1280},
    {"wkv", Format::kFp8, 512, kHidden},
    {"wo_a", Format::kFp8, 8192, 4096, 8},
    {"wo_b", Format::kFp8, kHidden, 8192},
    {"engram.wkv", Format::kFp8, 25600, 6144},
    {"shared w1", Format::kFp8, kExpertWidth, kHidden},
    {"expert w1", Format::kFp4, kExpertWidth, kHidden},
    {"expert w2", Format::kFp4, kHidden, kExpertWidth},
    {"gate", Format::kBf16, 384, kHidden, 1, true},
    {"head", Format::kBf16, 129280, kHidden, 1, true},
};
constexpr ProductCase kPrefillCases[] = {
    {"wq_a", Format::kFp8, 1280, kHidden},
    {"wq_b", Format::kFp8, 32768, 1280},
    {"wo_b", Format::kFp8, kHidden, 8192},
    {"shared w1", Format::kFp8, kExpertWidth, kHidden},
};

const char* name_of(Format format) {
  return format == Format::kFp8 ? "FP8" : format == Format::kFp4 ? "FP4" : "BF16";
}

// What bounds a case.
enum class Bound { kBandwidth, kRoofline };

class KernelBench {
 public:
  KernelBench(const KernelBenchOptions& options, CpuIsa isa, std::unique_ptr<Ops> ops, std::unique_ptr<ThreadPool> pool,
              RotatingWeights weights, ReadBandwidth bandwidth, ResultSink sink)
      : options_(options),
        isa_(isa),
        ops_(std::move(ops)),
        pool_(std::move(pool)),
        weights_(std::move(weights)),
        bandwidth_(std::move(bandwidth)),
        unit_(peak_unit_of(ops_->name())),
        sink_(sink),
        x_(static_cast<size_t>(kMaxRows * 8192)),
        y_(static_cast<size_t>(kMaxRows * 32768)),
        y32_(static_cast<size_t>(129280)) {
    for (size_t i = 0; i < x_.size(); ++i)
      x_[i] = to_bf16(static_cast<float>(static_cast<int>(static_cast<uint32_t>(i) * 2654435761u >> 27) - 15) / 8);
  }

  void machine() {
    if (skip("machine")) return;
    std::vector<double> read, peak;
    for (int i = 0; i < options_.samples; ++i) {
      read.push_back(bandwidth_.sample(*pool_));
      peak.push_back(sample_peak(unit_, *pool_));
    }
    sink_({.name = "machine: read bandwidth",
           .value = median(read) / 1e9,
           .unit = "GB/s",
           .limit = {},
           .note =
               fmt::format("{} threads, {:.1f} GB", pool_->threads(), static_cast<double>(bandwidth_.bytes()) / 1e9)});
    sink_({.name = fmt::format("machine: {} peak", to_string(unit_)),
           .value = median(peak) / 1e9,
           .unit = "GFLOP/s",
           .limit = {},
           .note = fmt::format("{} threads", pool_->threads())});
  }

  // What a parallel operation costs beside its work: all threads begin and the caller sees that all are done.
  void hand_off() {
    constexpr const char* kName = "machine: hand-off to all threads and back";
    if (skip(kName)) return;
    std::vector<double> seconds;
    for (int i = 0; i < 1000 * options_.samples; ++i) {
      const auto start = Clock::now();
      pool_->on_each_thread([](int) {});
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    sink_({.name = kName,
           .value = 1e6 * median(seconds),
           .unit = "us",
           .limit = {},
           .note = fmt::format("{} threads, awake", pool_->threads())});
  }

  // Decode: every head of one row attends to a full window and as many compressed rows as the indexer selects.
  void attention() {
    KernelAttention step;
    measure(fmt::format("sparse_attention, 1 row, {} keys", KernelAttention::kKeys), 0, step.operations(),
            Bound::kRoofline, [&] { step.run(*ops_); });
  }

  void products(const ProductCase& c, int64_t rows, Bound bound) {
    const std::string name = fmt::format("{} {}x{} {}, {} rows", c.name, c.n, c.k, name_of(c.format), rows);
    const LinearWeight shape{.format = c.format, .n = c.n, .k = c.k, .data = nullptr, .scale = nullptr};
    measure(name, static_cast<double>(shape.bytes()), 2.0 * static_cast<double>(rows * c.n * c.k), bound, [&] {
      const LinearWeight weight = weights_.next(c.format, c.n, c.k);
      const MatrixView<const bf16> x(x_.data(), rows, c.k * c.groups);
      if (c.groups > 1) {
        ops_->grouped_matmul({.x = x, .weight = weight, .groups = c.groups, .y = {y_.data(), rows, c.n}});
      } else if (c.fp32) {
        ops_->matmul({.x = x, .weight = weight, .y = {}, .y32 = {y32_.data(), rows, c.n}});
      } else {
        ops_->matmul({.x = x, .weight = weight, .y = {y_.data(), rows, c.n}, .y32 = {}});
      }
    });
  }

  // A layer's experts: each row goes to six of `experts` in turn, and to the shared one.
  void experts(int64_t rows, int experts, Bound bound) {
    const int64_t pairs = rows * kTopK;
    const int64_t distinct = std::min<int64_t>(pairs, experts);
    const std::string name = fmt::format("experts, {} rows, {:.0f} rows an expert", rows,
                                         static_cast<double>(pairs) / static_cast<double>(distinct));
    const auto expert_of = [this](Format format) {
      return ExpertWeights{.w1 = weights_.next(format, kExpertWidth, kHidden),
                           .w3 = weights_.next(format, kExpertWidth, kHidden),
                           .w2 = weights_.next(format, kHidden, kExpertWidth)};
    };
    const auto bytes_of = [](const ExpertWeights& e) { return e.w1.bytes() + e.w3.bytes() + e.w2.bytes(); };
    const double bytes =
        static_cast<double>(bytes_of(expert_of(Format::kFp4)) * distinct + bytes_of(expert_of(Format::kFp8)));
    const double operations = 6.0 * static_cast<double>((pairs + rows) * kHidden * kExpertWidth);
    std::vector<ExpertWeights> layer(static_cast<size_t>(experts));
    std::vector<int32_t> chosen(static_cast<size_t>(pairs));
    std::vector<float> weight(static_cast<size_t>(pairs), 0.25f);
    for (int64_t i = 0; i < pairs; ++i) chosen[static_cast<size_t>(i)] = static_cast<int32_t>(i % experts);
    measure(name, bytes, operations, bound, [&] {
      for (int64_t e = 0; e < distinct; ++e) layer[static_cast<size_t>(e)] = expert_of(Format::kFp4);
      ops_->mixture_of_experts({.x = {x_.data(), rows, kHidden},
                                .expert = {chosen.data(), rows, kTopK},
                                .weight = {weight.data(), rows, kTopK},
                                .experts = layer.data(),
                                .expert_count = experts,
                                .shared = expert_of(Format::kFp8),
                                .limit = 10,
                                .y = {y_.data(), rows, kHidden}});
    });
  }

  // The rate of the decode kernel alone on weights in the first-level cache: what it could do with infinite bandwidth.
  void cache_rates() {
    for (const Format format : {Format::kFp8, Format::kFp4, Format::kBf16}) {
      const std::string name = fmt::format("decode kernel on cached weights, {}", name_of(format));
      if (skip(name)) continue;
      std::vector<double> rates, read;
      for (int i = 0; i < options_.samples; ++i) {
        read.push_back(bandwidth_.sample(*pool_));
        rates.push_back(sample_cache_rate(isa_, format, *pool_));
      }
      sink_({.name = name,
             .value = median(rates) / 1e9,
             .unit = "GB/s",
             .limit = median(read) / 1e9,
             .note = "16 KB of weights a thread, limit: read bandwidth of memory"});
    }
  }

  int experts_that_fit() const { return static_cast<int>(std::min<uint64_t>(384, weights_.bytes() / 18'800'640)); }

 private:
  bool skip(const std::string& name) const {
    return !options_.only.empty() && name.find(options_.only) == std::string::npos;
  }

  // bytes, operations: of one call.
  template <typename Call>
  void measure(const std::string& name, double bytes, double operations, Bound bound, Call call) {
    if (skip(name)) return;
    call();
    std::vector<double> rates, limits;
    for (int i = 0; i < options_.samples; ++i) {
      const double read = bandwidth_.sample(*pool_);
      const double floor =
          bound == Bound::kBandwidth ? bytes / read : std::max(bytes / read, operations / sample_peak(unit_, *pool_));
      const auto start = Clock::now();
      int calls = 0;
      double seconds = 0;
      for (; seconds < kSampleSeconds; ++calls) {
        call();
        seconds = std::chrono::duration<double>(Clock::now() - start).count();
      }
      const double work = bound == Bound::kBandwidth ? bytes : operations;
      rates.push_back(work * calls / seconds);
      limits.push_back(work / floor);
    }
    sink_({.name = name,
           .value = median(rates) / 1e9,
           .unit = bound == Bound::kBandwidth ? "GB/s" : "GFLOP/s",
           .limit = median(limits) / 1e9,
           .note = fmt::format("{:.1f} MB, {:.3g} GFLOP a call, limit: {}", bytes / 1e6, operations / 1e9,
                               bound == Bound::kBandwidth ? "read bandwidth" : "roofline")});
  }

  static constexpr double kSampleSeconds = 0.03;

  const KernelBenchOptions& options_;
  CpuIsa isa_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<ThreadPool> pool_;  // of the limits; idle while ops_ works
  RotatingWeights weights_;
  ReadBandwidth bandwidth_;
  PeakUnit unit_;
  ResultSink sink_;
  std::vector<bf16> x_, y_;
  std::vector<float> y32_;
};

}  // namespace

Status bench_kernels(const KernelBenchOptions& options, CpuIsa isa, ResultSink sink) {
  constexpr uint64_t kLargestWeight = uint64_t{2} * 129280 * kHidden;
  const auto wanted = static_cast<uint64_t>(std::max<int64_t>(4 * last_level_cache_bytes(), int64_t{256} << 20));
  const uint64_t buffer_bytes = std::min(wanted, options.memory_bytes / 3);
  const uint64_t weight_bytes =
      std::min<uint64_t>(options.memory_bytes / 2, std::max(wanted, uint64_t{384} * 18'800'640));
  if (weight_bytes < kLargestWeight) {
    return {StatusCode::kResourceExhausted,
            fmt::format("the kernels need at least {:.1f} GB of memory, allowed are {:.1f} GB (--working-set)",
                        2e-9 * kLargestWeight, 1e-9 * static_cast<double>(options.memory_bytes))};
  }
  DI_ASSIGN_OR_RETURN(auto ops, make_cpu_ops({.threads = {.threads = options.threads}, .isa = isa}));
  DI_RETURN_IF_ERROR(ops->prepare({.rows = kMaxRows,
                                   .max_k = 32768,
                                   .max_n = 129280,
                                   .heads = KernelAttention::kHeads,
                                   .head_dim = KernelAttention::kHeadDim,
                                   .window_size = KernelAttention::kWindow,
                                   .top_k = KernelAttention::kSelected,
                                   .max_position = KernelAttention::kPosition,
                                   .experts = 384,
                                   .experts_per_token = kTopK,
                                   .expert_width = kExpertWidth,
                                   .hidden = kHidden,
                                   .vocabulary = 129280}));
  auto pool = std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = options.threads, .spin_microseconds = 20});
  DI_ASSIGN_OR_RETURN(RotatingWeights weights, RotatingWeights::make(weight_bytes, *pool));
  DI_ASSIGN_OR_RETURN(ReadBandwidth bandwidth, ReadBandwidth::prepare(static_cast<int64_t>(buffer_bytes), *pool));
  KernelBench bench(options, isa, std::move(ops), std::move(pool), std::move(weights), std::move(bandwidth), sink);
  bench.machine();
  bench.hand_off();
  bench.cache_rates();
  for (const ProductCase& c : kDecodeCases) bench.products(c, 1, Bound::kBandwidth);
  const int experts = bench.experts_that_fit();
  bench.experts(1, experts, Bound::kBandwidth);
  bench.attention();
  for (const int64_t rows : {6, 16}) bench.products(kDecodeCases[1], rows, Bound::kRoofline);
  bench.experts(experts * 8 / kTopK, experts, Bound::kRoofline);
  for (const int64_t rows : {256, 512, 2048}) {
    for (const ProductCase& c : kPrefillCases) bench.products(c, rows, Bound::kRoofline);
  }
  return {};
}

}  // namespace deepinfer::bench
