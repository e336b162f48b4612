#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "backends/cpu/peak_rate.h"
#include "base/thread_pool.h"
#include "bench/machine_limits.h"
#include "bench/median.h"
#include "bench/model_bench.h"
#include "bench/synthetic_layers.h"
#include "bench/timed_ops.h"

namespace deepinfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The experts of a layer that fit beside the rest; the config's number where all do.
Result<int> experts_that_fit(const SyntheticBenchOptions& options, uint64_t buffer_bytes) {
  const int all = options.config.n_routed_experts;
  const uint64_t with_all = SyntheticLayers::weight_bytes(layer_slice(options.config, options.layers, all));
  const uint64_t with_half = SyntheticLayers::weight_bytes(layer_slice(options.config, options.layers, all / 2));
  const uint64_t expert = (with_all - with_half) / static_cast<uint64_t>(all - all / 2);
  const uint64_t rest = with_all - expert * static_cast<uint64_t>(all) + buffer_bytes;
  const int fit =
      options.memory_bytes <= rest
          ? 0
          : static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(all), (options.memory_bytes - rest) / expert));
  if (fit < 2 * options.config.num_experts_per_tok)
    return Status(
        StatusCode::kResourceExhausted,
        fmt::format(
            "{} layers need at least {:.1f} GB of memory, allowed are {:.1f} GB (--working-set)", options.layers,
            static_cast<double>(rest + expert * static_cast<uint64_t>(2 * options.config.num_experts_per_tok)) / 1e9,
            static_cast<double>(options.memory_bytes) / 1e9));
  return fit;
}

class SyntheticBench {
 public:
  SyntheticBench(const SyntheticBenchOptions& options, SyntheticLayers& layers, ReadBandwidth bandwidth,
                 ThreadPool& pool, TimedOps& ops)
      : options_(options),
        layers_(layers),
        bandwidth_(std::move(bandwidth)),
        pool_(pool),
        ops_(ops),
        unit_(peak_unit_of(ops.name())) {}

  // A prompt of `rows` tokens in steps of as many rows as the layers were made for.
  Status prefill(int64_t rows, int64_t chunk, ResultSink sink) {
    std::vector<double> seconds, limits;
    const int samples = std::max(3, options_.samples / 3);
    layers_.free_experts();
    ops_.clear();
    for (int sample = 0; sample < samples; ++sample) {
      const double read = bandwidth_.sample(pool_);
      const double peak = sample_peak(unit_, pool_);
      double limit = 0;
      const auto start = Clock::now();
      for (int64_t at = 0; at < rows; at += chunk) layers_.run(at, std::min(chunk, rows - at));
      seconds.push_back(seconds_since(start));
      // One step is bound by the slower of its bytes and its operations; the prompt by the sum of its steps.
      for (int64_t at = 0; at < rows; at += chunk) {
        const int64_t step = std::min(chunk, rows - at);
        limit += std::max(static_cast<double>(layers_.weight_bytes_of_step(step)) / read,
                          layers_.operations(at, step) / peak);
      }
      limits.push_back(limit);
    }
    if (!layers_.finite()) return Status(StatusCode::kInternal, "a synthetic prefill gave values that are not finite");
    sink({fmt::format("prefill of {} tokens, {} layers", rows, options_.layers), 1e3 * median(seconds), "ms",
          1e3 * median(limits),
          fmt::format("roofline of {:.1f} GB of weights and {:.2f} TFLOP ({}), steps of {} rows, median of {}",
                      static_cast<double>(layers_.weight_bytes_of_step(std::min(chunk, rows))) / 1e9,
                      layers_.operations(0, rows) / 1e12, to_string(unit_), std::min(chunk, rows), samples)});
    if (options_.profile) profile(fmt::format("prefill of {}", rows), samples, 0, sink);
    return {};
  }

  Status decode(int64_t position, ResultSink sink) {
    const double bytes = static_cast<double>(layers_.bytes_of_token(position));
    std::vector<double> rates, limits, seconds;
    const int64_t experts_of_token = int64_t{options_.layers} * options_.config.num_experts_per_tok;
    ops_.clear();
    for (int sample = 0; sample < options_.samples; ++sample) {
      layers_.force_experts(sample * experts_of_token);
      limits.push_back(bandwidth_.sample(pool_));
      const auto start = Clock::now();
      layers_.run(position, 1);
      seconds.push_back(seconds_since(start));
      rates.push_back(bytes / seconds.back());
    }
    if (!layers_.finite())
      return Status(StatusCode::kInternal, "a synthetic decode step gave values that are not finite");
    sink({fmt::format("decode, batch 1, {} layers", options_.layers), median(rates) / 1e9, "GB/s", median(limits) / 1e9,
          fmt::format(
              "{:.0f} MB touched a token at position {}, {:.1f} ms, median of {}, {:.1f} GB read between two steps",
              bytes / 1e6, position, 1e3 * median(seconds), options_.samples,
              static_cast<double>(bandwidth_.bytes()) / 1e9)});
    if (options_.profile) profile("decode", options_.samples, median(limits), sink);
    return {};
  }

 private:
  // Where a run's time went, operation by operation: the mean of all samples.  read: bytes a second that weights are
  // judged by; 0: not judged.
  void profile(std::string_view what, int runs, double read, ResultSink sink) const {
    for (const OpTime& op : ops_.times()) {
      BenchResult result{fmt::format("{}: {}", what, op.name), 1e3 * op.seconds / runs, "ms", std::nullopt,
                         fmt::format("{} calls a run", op.calls / runs)};
      if (read > 0 && op.weight_bytes > 0) {
        const double bytes = static_cast<double>(op.weight_bytes) / runs;
        result.limit = 1e3 * bytes / read;
        result.note += fmt::format(", {:.1f} MB of weights", bytes / 1e6);
      }
      sink(result);
    }
  }

  const SyntheticBenchOptions& options_;
  SyntheticLayers& layers_;
  ReadBandwidth bandwidth_;
  ThreadPool& pool_;
  TimedOps& ops_;  // what the layers run on
  PeakUnit unit_;
};

}  // namespace

Status bench_synthetic_model(const SyntheticBenchOptions& options, Ops& backend, ResultSink sink) {
  TimedOps ops(backend);  // two clock reads a call: some microseconds of a step that takes milliseconds
  // Of the limits: its threads sleep while those of the backend work.
  ThreadPool pool({.threads = options.threads, .spin_microseconds = 20});
  const auto wanted = static_cast<uint64_t>(std::max<int64_t>(4 * last_level_cache_bytes(), int64_t{256} << 20));
  const uint64_t buffer_bytes = std::min(wanted, options.memory_bytes / 4);
  DI_ASSIGN_OR_RETURN(const int experts, experts_that_fit(options, buffer_bytes));
  int64_t longest = 1;
  for (const int64_t rows : options.prefill) longest = std::max(longest, rows);
  const int64_t chunk = std::min(options.prefill_chunk, longest);
  DI_ASSIGN_OR_RETURN(const auto layers, SyntheticLayers::make(layer_slice(options.config, options.layers, experts),
                                                               {.rows = chunk, .context = longest + 1}, ops));
  DI_ASSIGN_OR_RETURN(ReadBandwidth bandwidth, ReadBandwidth::prepare(static_cast<int64_t>(buffer_bytes), pool));
  SyntheticBench bench(options, *layers, std::move(bandwidth), pool, ops);
  for (const int64_t rows : options.prefill) DI_RETURN_IF_ERROR(bench.prefill(rows, chunk, sink));
  return bench.decode(longest, sink);
}

}  // namespace deepinfer::bench
