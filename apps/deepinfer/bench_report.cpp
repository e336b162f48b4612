#include "bench_report.h"

#include <fmt/format.h>

#include "backends/cpu/cpu_ops.h"
#include "machine_memory.h"
#include "version.h"

namespace deepinfer::cli {

BenchReport::BenchReport(bool json, std::string hardware) : json_(json), hardware_(std::move(hardware)) {
  if (!json_) out_.write(fmt::format("{}, commit {}\n", hardware_, commit_id()));
}

void BenchReport::operator()(const bench::BenchResult& result) {
  out_.write(json_ ? bench::result_json(result, hardware_, commit_id()) : bench::result_line(result));
}

ExitCode BenchReport::finish(const Status& status) const {
  if (!status.ok()) return report_error(status);
  return out_.status().ok() ? ExitCode::kOk : report_error(out_.status());
}

std::string cpu_path_name() {
  const Result<CpuIsa> isa = select_cpu_isa();
  return isa.ok() ? fmt::format("cpu/{}", to_string(*isa)) : "no CPU path";
}

uint64_t memory_bytes_or_half(const std::optional<double>& working_set) {
  if (working_set) return static_cast<uint64_t>(*working_set * 1e9);
  return machine_memory_bytes() / 2;
}

}  // namespace deepinfer::cli
