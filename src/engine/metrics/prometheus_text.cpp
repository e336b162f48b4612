#include <fmt/format.h>

#include <initializer_list>
#include <iterator>
#include <utility>

#include "engine/metrics/engine_metrics.h"

namespace deepinfer {
namespace {

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return escaped;
}

class Exposition {
 public:
  explicit Exposition(std::string_view model) : model_(label_value(model)) {}

  void head(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP deepinfer_{0} {2}\n# TYPE deepinfer_{0} {1}\n", name, type, help);
  }
  template <typename T>
  void sample(std::string_view name, T value, std::string_view labels = {}) {
    fmt::format_to(std::back_inserter(text_), "deepinfer_{}{{model_name=\"{}\"{}}} {}\n", name, model_, labels, value);
  }
  void gauge(std::string_view name, const Gauge& gauge, std::string_view help) {
    head(name, "gauge", help);
    sample(name, gauge.value());
  }
  void counter(std::string_view name, const Counter& counter, std::string_view help) {
    head(name, "counter", help);
    sample(name, counter.value());
  }
  void histogram(const std::string& name, const Histogram& histogram, std::string_view help) {
    head(name, "histogram", help);
    int64_t below = 0;
    for (size_t i = 0; i < histogram.bounds().size(); ++i) {
      below += histogram.bucket(i);
      sample(name + "_bucket", below, fmt::format(",le=\"{}\"", histogram.bounds()[i]));
    }
    below += histogram.bucket(histogram.bounds().size());
    sample(name + "_bucket", below, ",le=\"+Inf\"");
    sample(name + "_sum", histogram.sum());
    sample(name + "_count", below);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string model_, text_;
};

}  // namespace

std::string prometheus_text(const EngineMetrics& metrics, std::string_view model) {
  Exposition out(model);
  out.gauge("requests_waiting", metrics.waiting, "Requests in the queue.");
  out.gauge("requests_running", metrics.running, "Requests in the engine.");
  out.gauge("requests_prefilling", metrics.prefilling, "Running requests whose prompt is being processed.");
  out.gauge("cache_blocks_held", metrics.held_blocks, "Cache blocks of running requests.");
  out.gauge("cache_blocks_total", metrics.total_blocks, "Cache blocks of the device.");
  out.counter("steps_total", metrics.steps, "Steps of the engine.");
  out.counter("prefill_rows_total", metrics.prefill_rows, "Prompt tokens that were computed.");
  out.counter("decode_rows_total", metrics.decode_rows, "Rows of decode rounds, drafts included.");
  out.counter("prompt_tokens_total", metrics.prompt_tokens, "Prompt tokens of requests that ended.");
  out.head("prompt_tokens_cached_total", "counter", "Of them, taken from the prefix cache, by where they lay before.");
  const int64_t from_below = metrics.tier_tokens.value();
  out.sample("prompt_tokens_cached_total", metrics.cached_tokens.value() - from_below, ",tier=\"device\"");
  out.sample("prompt_tokens_cached_total", from_below, ",tier=\"below\"");
  out.counter("answer_tokens_total", metrics.answer_tokens, "Tokens of answers.");
  out.counter("draft_tokens_total", metrics.drafted, "Draft tokens that were verified.");
  out.counter("draft_tokens_accepted_total", metrics.accepted, "Draft tokens that were delivered.");
  out.counter("preemptions_total", metrics.preemptions, "Requests that had to wait again.");
  out.head("requests_total", "counter", "Requests that ended, by reason.");
  for (const auto& [reason, counter] :
       std::initializer_list<std::pair<const char*, const Counter*>>{{"stop", &metrics.stopped},
                                                                     {"length", &metrics.length},
                                                                     {"cancelled", &metrics.cancelled},
                                                                     {"deadline", &metrics.expired},
                                                                     {"error", &metrics.failed}})
    out.sample("requests_total", counter->value(), fmt::format(",reason=\"{}\"", reason));
  out.head("step_time_seconds_total", "counter", "Time of steps: planning on the host, and running on the device.");
  out.sample("step_time_seconds_total", static_cast<double>(metrics.plan_nanoseconds.value()) / 1e9, ",part=\"plan\"");
  out.sample("step_time_seconds_total", static_cast<double>(metrics.run_nanoseconds.value()) / 1e9, ",part=\"run\"");
  const int64_t attention = metrics.attention_megaflops.value();
  out.head("flops_total", "counter", "Floating-point operations of steps, from the model's shapes; drafts apart.");
  out.sample("flops_total", 1e6 * static_cast<double>(attention), ",part=\"attention\"");
  out.sample("flops_total", 1e6 * static_cast<double>(metrics.megaflops.value() - attention), ",part=\"products\"");
  out.histogram("step_seconds", metrics.step_seconds, "Time of a step on the device.");
  out.histogram("queue_seconds", metrics.queue_seconds, "Submission to first plan.");
  out.histogram("first_token_seconds", metrics.first_token_seconds, "Submission to first token.");
  out.histogram("inter_token_seconds", metrics.inter_token_seconds, "Time between tokens of an answer.");
  out.histogram("request_seconds", metrics.total_seconds, "Submission to end.");
  out.histogram("round_tokens", metrics.accepted_length, "Tokens of a decode round.");
  return out.take();
}

}  // namespace deepinfer
