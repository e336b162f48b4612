// `deepinfer bench kernels`: matrix products and experts at the released dimensions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/cpu_ops.h"
#include "bench/kernel_bench.h"
#include "bench_report.h"
#include "command.h"
#include "number_option.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer bench kernels
  deepinfer bench kernels --only FP4 --json
  DEEPINFER_CPU_ISA=avx2 deepinfer bench kernels --threads 1

Each kernel and the limit that binds it (read bandwidth, arithmetic peak, or the slower of the two) are sampled in turn.)";

struct Options {
  std::optional<int32_t> threads;
  std::optional<int32_t> samples;
  std::optional<double> working_set;
  std::string only;
  bool json = false;
};

ExitCode bench_kernels(const Options& options) {
  const Result<CpuIsa> isa = select_cpu_isa();
  if (!isa.ok()) return report_error(isa.status());
  const bench::KernelBenchOptions bench{.threads = options.threads.value_or(0),
                                        .samples = options.samples.value_or(9),
                                        .memory_bytes = memory_bytes_or_half(options.working_set),
                                        .only = options.only};
  BenchReport report(options.json, bench::hardware_text(cpu_path_name()));
  return report.finish(bench::bench_kernels(bench, *isa, report));
}

}  // namespace

void add_bench_kernels_command(CLI::App& bench, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand("kernels", "Matrix products and experts of the released dimensions");
  command.footer(kExamples);
  command.add_option("--only", options->only, "those whose name contains TEXT")->type_name("TEXT");
  add_number<double>(command, "--working-set", options->working_set, {.lowest = 0.1, .highest = 100000},
                     "most memory in GB (default: half of this machine's)");
  add_number<int32_t>(command, "--threads", options->threads, {.lowest = 1, .highest = 1024},
                      "threads (default: one per physical core)");
  add_number<int32_t>(command, "--samples", options->samples, {.lowest = 1, .highest = 1000},
                      "samples a median is taken of (default 9)");
  command.add_flag("--json", options->json, "print one JSON object a result");
  command.callback([options, &action] { action = [options] { return bench_kernels(*options); }; });
}

}  // namespace deepinfer::cli
