// How `deepinfer bench` prints: a line or a JSON object a result, as they come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/bench_result.h"
#include "exit_code.h"
#include "standard_output.h"

namespace deepinfer::cli {

class BenchReport {
 public:
  BenchReport(bool json, std::string hardware);
  void operator()(const bench::BenchResult& result);
  // Reports the benchmark's error or that of standard output, if there was one.
  ExitCode finish(const Status& status) const;

 private:
  bool json_;
  std::string hardware_;
  StandardOutput out_;
};

// "cpu/avx512": the path that this machine gets.
std::string cpu_path_name();

// The most memory a benchmark takes when --working-set (GB) is not given: half of this machine's.
uint64_t memory_bytes_or_half(const std::optional<double>& working_set);

}  // namespace deepinfer::cli
