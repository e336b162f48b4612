#include "bench/gpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "bench/median.h"
#include "bench/synthetic_layers.h"
#include "bench/timed_ops.h"

namespace deepinfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class GpuModelBench {
 public:
  GpuModelBench(const GpuModelOptions& options, Ops& ops, TimedOps& timed, SyntheticLayers& layers, ResultSink sink)
      : options_(options), ops_(ops), timed_(timed), layers_(layers), sink_(sink) {}

  Status decode(int64_t batch, int64_t context) {
    const int64_t position = context - options_.samples - kWarm - 2;
    const int64_t experts = layers_.distinct_experts(position, batch);
    int64_t at = position;
    std::vector<double> seconds;
    for (int i = 0; i < kWarm + options_.samples; ++i) {
      const auto start = Clock::now();
      DI_RETURN_IF_ERROR(step(++at, batch));
      if (i >= kWarm) seconds.push_back(seconds_since(start));
    }
    const double bytes = static_cast<double>(layers_.dense_bytes()) + head_bytes() +
                         static_cast<double>(experts) * static_cast<double>(layers_.expert_bytes()) +
                         static_cast<double>(batch) * static_cast<double>(layers_.record_bytes_of_token(position));
    const double step_seconds = median(seconds);
    sink_({fmt::format("decode, batch {}, context {}", batch, context), 1e3 * step_seconds, "ms",
           1e3 * bytes / options_.read,
           fmt::format("{:.2f} GB a step, {:.0f} tokens/s, {} distinct experts a layer, median of {}", bytes / 1e9,
                       static_cast<double>(batch) / step_seconds,
                       experts / std::max(1, options_.config.num_hidden_layers), options_.samples)});
    if (options_.profile) {
      timed_.clear();
      DI_RETURN_IF_ERROR(step(++at, batch));
      profile(fmt::format("batch {}, context {}", batch, context));
    }
    return {};
  }

  Status prefill(int64_t tokens) {
    std::vector<double> seconds;
    const auto prompt = [&] {
      for (int64_t at = 0; at < tokens; at += options_.chunk) {
        const int64_t rows = std::min(options_.chunk, tokens - at);
        layers_.run(at, rows, 1, at + rows == tokens ? 1 : 0);
      }
      ops_.memory().finish();
    };
    prompt();
    for (int i = 0; i < std::max(3, options_.samples / 3); ++i) {
      const auto start = Clock::now();
      prompt();
      seconds.push_back(seconds_since(start));
    }
    DI_RETURN_IF_ERROR(ops_.health());
    const double operations = layers_.operations(0, tokens);
    sink_(
        {fmt::format("prefill of {} tokens", tokens), 1e3 * median(seconds), "ms", 1e3 * operations / options_.peak,
         fmt::format("{:.1f} TFLOP, {:.0f} TFLOP/s, {:.0f} tokens/s, steps of {} rows, median of {}", operations / 1e12,
                     operations / median(seconds) / 1e12, static_cast<double>(tokens) / median(seconds),
                     std::min(options_.chunk, tokens), seconds.size())});
    if (options_.profile) {
      timed_.clear();
      prompt();
      profile(fmt::format("prefill of {}", tokens));
    }
    return {};
  }

 private:
  static constexpr int kWarm = 4;

  double head_bytes() const {
    return 2.0 * static_cast<double>(options_.config.vocab_size) * static_cast<double>(options_.config.hidden_size);
  }

  Status step(int64_t position, int64_t batch) {
    const MatrixView<float> logits = layers_.run(position, 1, batch, 1);
    std::vector<SamplingRow> rows(static_cast<size_t>(batch));
    for (SamplingRow& row : rows) row.temperature = 0;
    std::vector<SampledRow> sampled(rows.size());
    ops_.sample({logits, rows, sampled, {}});
    DI_RETURN_IF_ERROR(ops_.health());
    for (const SampledRow& row : sampled)
      if (row.token < 0 || !std::isfinite(row.key))
        return Status(StatusCode::kInternal, "a step gave logits that are not finite");
    return {};
  }

  void profile(const std::string& what) {
    for (const OpTime& op : timed_.times())
      sink_({fmt::format("{}: {}", what, op.name), 1e3 * op.seconds, "ms",
             op.weight_bytes > 0 ? std::optional<double>(1e3 * static_cast<double>(op.weight_bytes) / options_.read)
                                 : std::nullopt,
             fmt::format("{} calls, each waited for", op.calls)});
  }

  const GpuModelOptions& options_;
  Ops& ops_;
  TimedOps& timed_;  // of ops_; what the layers run on where options_.profile
  SyntheticLayers& layers_;
  ResultSink sink_;
};

}  // namespace

Status bench_gpu_model(const GpuModelOptions& options, Ops& backend, ResultSink sink) {
  // Made once, for the largest of everything; caches come and go.
  SyntheticPlan plan{.expert_layers = options.expert_layers};
  for (const int64_t tokens : options.prefill) {
    plan.context = std::max(plan.context, tokens);
    plan.rows = std::max(plan.rows, std::min(tokens, options.chunk));
  }
  for (const int64_t context : options.context) plan.context = std::max(plan.context, context);
  for (const int64_t batch : options.batch) plan.sequences = std::max(plan.sequences, batch);
  plan.rows = std::max(plan.rows, plan.sequences);
  TimedOps timed(backend);
  Ops& ops = options.profile ? timed : backend;
  const auto start = Clock::now();
  DI_ASSIGN_OR_RETURN(const auto layers, SyntheticLayers::make(whole_network(options.config), plan, ops));
  sink({"weights made", seconds_since(start), "s", std::nullopt,
        fmt::format("{:.1f} GB", static_cast<double>(SyntheticLayers::weight_bytes(whole_network(options.config),
                                                                                   options.expert_layers)) /
                                     1e9)});
  GpuModelBench bench(options, ops, timed, *layers, sink);
  for (const int64_t context : options.context) {
    for (const int64_t batch : options.batch) {
      const Status caches = layers->make_caches(batch, context);
      if (caches.code() == StatusCode::kResourceExhausted) {
        sink({fmt::format("decode, batch {}, context {}", batch, context),
              static_cast<double>(batch) *
                  static_cast<double>(SyntheticLayers::cache_bytes(whole_network(options.config), context)) / 1e9,
              "GB", std::nullopt, "of caches do not fit"});
        continue;
      }
      DI_RETURN_IF_ERROR(caches);
      layers->fill_records();
      DI_RETURN_IF_ERROR(bench.decode(batch, context));
    }
  }
  for (const int64_t tokens : options.prefill) {
    DI_RETURN_IF_ERROR(layers->make_caches(1, tokens));
    DI_RETURN_IF_ERROR(bench.prefill(tokens));
  }
  return {};
}

}  // namespace deepinfer::bench
