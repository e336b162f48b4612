// One figure of a benchmark beside the limit that it is judged by, and how figures are printed.  Every benchmark of
// bench/ hands results over one at a time; `deepinfer bench` prints them as they come.
#pragma once

#include <optional>
#include <string>

#include "base/function_ref.h"

namespace deepinfer::bench {

struct BenchResult {
  std::string name;  // "decode, 4 layers"
  double value = 0;
  std::string unit;  // "GB/s", "tokens/s", "ms"
  std::optional<double>
      limit;  // of this machine, in the same unit, measured in turn with the value; none: there is no such figure
  std::string note = {};  // what the figure was taken on: "9 medians, 1.27 GB touched a token"

  // value / limit, or limit / value where less is better, so that 1 is the limit reached.
  std::optional<double> ratio() const;
  bool less_is_better() const;
};

using ResultSink = FunctionRef<void(const BenchResult&)>;

// "Intel(R) Xeon(R) Processor, 2 cores, cpu/avx512, 24 GB"
std::string hardware_text(std::string_view backend);

// A line of a table that people read.
std::string result_line(const BenchResult& result);
// {"name", "value", "unit", "limit", "ratio", "hardware", "commit"}, "note" where there is one, and a line break.
std::string result_json(const BenchResult& result, std::string_view hardware, std::string_view commit);

}  // namespace deepinfer::bench
