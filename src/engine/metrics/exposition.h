// Exposition: metrics as text for Prometheus, format 0.0.4.  The one writer of all metrics of this program: it knows
// the format's rules (one HELP and TYPE a family, escapes, cumulative buckets), and nothing of what is counted.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "engine/metrics/metric.h"

namespace deepinfer {

class Exposition {
 public:
  using Label = std::pair<std::string_view, std::string_view>;
  using Labels = std::initializer_list<Label>;

  // common: labels that every sample has.
  explicit Exposition(Labels common = {});

  // Begins a family, whose samples follow.  Names are those of the format; counters end with _total, others do not.
  void begin_counter(std::string_view name, std::string_view help) { begin(name, "counter", help); }
  void begin_gauge(std::string_view name, std::string_view help) { begin(name, "gauge", help); }
  void sample(int64_t value, Labels labels = {});
  void sample(double value, Labels labels = {});

  // A family with one member.
  void counter(std::string_view name, std::string_view help, int64_t value);
  void gauge(std::string_view name, std::string_view help, int64_t value);
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram);

  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name, std::string_view type, std::string_view help);
  void write(std::string_view suffix, std::string_view value, Labels labels);

  std::string common_;  // `a="x",b="y"`
  std::string family_;
  std::string text_;
};

}  // namespace deepinfer
