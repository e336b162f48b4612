// `deepinfer bench gpu-model`: the network in the released dimensions on a GPU.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench_report.h"
#include "command.h"
#include "number_option.h"
#ifdef DEEPINFER_HAS_CUDA
#include <algorithm>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/cuda_ops.h"
#include "bench/gpu_model.h"
#include "bench/released_config.h"
#endif

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer bench gpu-model --batch 1,8,64 --context 4096,32768
  deepinfer bench gpu-model --batch 1 --profile
  deepinfer bench gpu-model --prefill 8192 --json

All 40 layers of DeepSeek-V4.1-Flash without Engram and drafts, weights made on the GPU. Eight layers have experts of their
own (58 GB), the others take theirs in turn, so that no cache holds an expert when it is read again. Steps go from token
ids to the chosen tokens. A decode step stands beside its bytes over the read bandwidth, a prompt beside its operations over
the BF16 peak, both measured first.)";

struct Options {
  std::vector<int64_t> batch = {1}, context = {4096}, prefill;
  std::optional<int32_t> expert_layers, samples;
  std::optional<int64_t> chunk;
  bool profile = false, json = false;
};

#ifdef DEEPINFER_HAS_CUDA
ExitCode bench_gpu_model(const Options& options) {
  const Result<cuda::Device> device = cuda::current_device();
  if (!device.ok()) return report_error(device.status());
  Result<std::unique_ptr<Ops>> ops = make_cuda_ops();
  if (!ops.ok()) return report_error(ops.status());
  bench::GpuModelOptions bench;
  Result<deepseek_v41::Config> config = deepseek_v41::parse_config(bench::released_config_json(), "v4.1-flash");
  if (!config.ok()) return report_error(config.status());
  bench.config = std::move(*config);
  bench.expert_layers = options.expert_layers.value_or(8);
  bench.samples = options.samples.value_or(9);
  bench.chunk = options.chunk.value_or(8192);
  bench.batch = options.batch;
  bench.context = options.context;
  bench.prefill = options.prefill;
  bench.profile = options.profile;
  constexpr int64_t kRead = int64_t{8} << 30;
  const Result<double> loads = cuda::measure_read(cuda::ReadKind::kPlainLoads, kRead);
  if (!loads.ok()) return report_error(loads.status());
  const Result<double> copies = cuda::measure_read(cuda::ReadKind::kBulkCopies, kRead);  // not on every GPU
  bench.read = copies.ok() ? std::max(*loads, *copies) : *loads;
  const Result<double> peak = cuda::measure_matrix_peak(cuda::MatrixKind::kBf16);
  if (!peak.ok()) return report_error(peak.status());
  bench.peak = *peak;
  BenchReport report(options.json, device->name + ", " + std::string((*ops)->name()));
  report({.name = "read", .value = bench.read / 1e9, .unit = "GB/s", .limit = {}, .note = "best of 20, 8 GiB"});
  report({.name = "BF16 matrices", .value = bench.peak / 1e12, .unit = "TFLOP/s", .limit = {}, .note = "best of 5"});
  return report.finish(bench::bench_gpu_model(bench, **ops, report));
}
#else
ExitCode bench_gpu_model(const Options&) {
  return report_error(unsupported("this build has no CUDA backend; build it with `cmake --preset cuda-sm90`"));
}
#endif

CLI::Option* add_numbers(CLI::App& command, const char* name, std::vector<int64_t>& to, int64_t highest,
                         const char* what) {
  return command.add_option(name, to, what)->delimiter(',')->type_name("N,...")->check(CLI::Range(int64_t{1}, highest));
}

}  // namespace

void add_bench_gpu_model_command(CLI::App& bench, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand("gpu-model", "DeepSeek-V4.1-Flash's dimensions on the GPU");
  command.footer(kExamples);
  add_numbers(command, "--batch", options->batch, 4096, "decode: sequences of a step (default 1)");
  add_numbers(command, "--context", options->context, 1 << 20, "decode: tokens of each sequence (default 4096)");
  add_numbers(command, "--prefill", options->prefill, 1 << 20, "prompt lengths (default: none)");
  add_number<int64_t>(command, "--prefill-chunk", options->chunk, {.lowest = 1, .highest = 65536},
                      "prompt tokens a step (default 8192)");
  add_number<int32_t>(command, "--expert-layers", options->expert_layers, {.lowest = 1, .highest = 40},
                      "layers with experts of their own (default 8)");
  add_number<int32_t>(command, "--samples", options->samples, {.lowest = 1, .highest = 1000},
                      "samples a median is taken of (default 9)");
  command.add_flag("--profile", options->profile, "also the time of every operation, waiting for each");
  command.add_flag("--json", options->json, "print one JSON object a result");
  command.callback([options, &action] { action = [options] { return bench_gpu_model(*options); }; });
}

}  // namespace deepinfer::cli
