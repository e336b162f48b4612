// `deepinfer bench gpu`: what the GPU can do at best, and its kernels beside that.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "bench_report.h"
#include "command.h"
#include "number_option.h"
#ifdef DEEPINFER_HAS_CUDA
#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/ceilings/file_rates.h"
#include "bench/gpu_attention.h"
#include "bench/gpu_dense.h"
#include "bench/gpu_experts.h"
#include "bench/gpu_rows.h"
#include "bench/gpu_selection.h"
#endif

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer bench gpu
  deepinfer bench gpu --gigabytes 32 --json
  deepinfer bench gpu --file model-00001-of-00003.safetensors

Best of 20 passes for memory and graphs, best of 5 for matrices, on random data: kernels of this backend are judged by
these figures.)";

struct Options {
  std::optional<int32_t> gigabytes;
  std::optional<std::string> file;
  bool json = false;
};

#ifdef DEEPINFER_HAS_CUDA
Status measure(int64_t bytes, BenchReport& report) {
  const std::string what = fmt::format("best of 20, {} GiB", bytes >> 30);
  // Reports a figure; one that this GPU has not is left out.
  const auto add = [&](const char* name, Result<double> figure, double scale, const char* unit,
                       const std::string& note) -> Status {
    if (!figure.ok()) return figure.status().code() == StatusCode::kUnsupported ? Status() : figure.status();
    report({.name = name, .value = *figure * scale, .unit = unit, .limit = {}, .note = note});
    return {};
  };
  using namespace cuda;
  const Result<double> loads = measure_read(ReadKind::kPlainLoads, bytes);
  const Result<double> copies = measure_read(ReadKind::kBulkCopies, bytes);
  DI_RETURN_IF_ERROR(add("read, plain loads", loads, 1e-9, "GB/s", what));
  DI_RETURN_IF_ERROR(add("read, bulk copies", copies, 1e-9, "GB/s", what));
  DI_RETURN_IF_ERROR(add("copy, read and written", measure_copy(bytes), 1e-9, "GB/s", what));
  const Result<double> matrices = measure_matrix_peak(MatrixKind::kBf16);
  DI_RETURN_IF_ERROR(add("BF16 matrices", matrices, 1e-12, "TFLOP/s", "best of 5"));
  DI_RETURN_IF_ERROR(add("FP8 matrices", measure_matrix_peak(MatrixKind::kFp8), 1e-12, "TFLOP/s", "best of 5"));
  DI_RETURN_IF_ERROR(add("graph node", measure_graph_node(GraphEdge::kFull), 1e6, "us", "best of 20, 1,000 nodes"));
  DI_RETURN_IF_ERROR(add("graph node, programmatic launch", measure_graph_node(GraphEdge::kProgrammatic), 1e6, "us",
                         "best of 20, 1,000 nodes"));
  if (!matrices.ok()) return {};  // no kernels for this GPU yet
  const bench::GpuLimits limits{.read = std::max(*loads, *copies), .multiply = *matrices};
  for (const int64_t rows : {1, 6, 8, 16, 32, 128, 512, 2048, 8192})
    DI_RETURN_IF_ERROR(bench::bench_gpu_dense(rows, limits, report));
  for (const int64_t rows : {1, 8, 64, 2048}) DI_RETURN_IF_ERROR(bench::bench_gpu_rows(rows, limits.read, report));
  constexpr std::array<int64_t, 6> kAttention = {1, 4, 16, 64, 128, 256};
  DI_RETURN_IF_ERROR(bench::bench_gpu_attention(kAttention, limits.multiply, limits.read, report));
  constexpr std::array<bench::SelectionShape, 10> kSelection = {{{1, 4096},
                                                                 {1, 32768},
                                                                 {1, 65536},
                                                                 {1, 131072},
                                                                 {1, 524288},
                                                                 {4, 131072},
                                                                 {16, 131072},
                                                                 {64, 4096},
                                                                 {64, 32768},
                                                                 {64, 131072}}};
  DI_RETURN_IF_ERROR(bench::bench_gpu_selection(kSelection, limits.read, limits.multiply, report));
  constexpr std::array<bench::DecodeStep, 6> kDecode = {{{1}, {6}, {16}, {64}, {64, 60}, {256}}};
  DI_RETURN_IF_ERROR(bench::bench_gpu_experts_decode(kDecode, limits.read, report));
  constexpr std::array<int64_t, 2> kPrefill = {2048, 8192};
  return bench::bench_gpu_experts_prefill(kPrefill, limits.multiply, report);
}

// The file into the GPU's memory, as weights go.
Status measure_upload(const std::string& file, BenchReport& report) {
  DI_ASSIGN_OR_RETURN(const cuda::FileRates rates, cuda::measure_file(file));
  const std::string what = fmt::format("{} threads, best of 3", rates.threads);
  report({.name = "file, read", .value = rates.read * 1e-9, .unit = "GB/s", .limit = {}, .note = what});
  report({.name = "copy from pinned memory",
          .value = rates.copy * 1e-9,
          .unit = "GB/s",
          .limit = {},
          .note = "best of 3"});
  report({.name = "file to the GPU",
          .value = rates.upload * 1e-9,
          .unit = "GB/s",
          .limit = std::min(rates.read, rates.copy) * 1e-9,
          .note = what});
  report({.name = "file to the GPU, eight times over",
          .value = rates.steady * 1e-9,
          .unit = "GB/s",
          .limit = std::min(rates.read, rates.copy) * 1e-9,
          .note = what});
  return {};
}
#endif

ExitCode bench_gpu([[maybe_unused]] const Options& options) {
#ifdef DEEPINFER_HAS_CUDA
  const Result<cuda::Device> device = cuda::current_device();
  if (!device.ok()) return report_error(device.status());
  BenchReport report(
      options.json,
      fmt::format("{}, compute capability {}.{}, {} multiprocessors, {:.0f} GB", device->name, device->capability / 10,
                  device->capability % 10, device->multiprocessors, static_cast<double>(device->memory_bytes) / 1e9));
  if (options.file) return report.finish(measure_upload(*options.file, report));
  return report.finish(measure(int64_t{options.gigabytes.value_or(8)} << 30, report));
#else
  return report_error(unsupported("this build has no CUDA backend; build it with `cmake --preset cuda-sm90`"));
#endif
}

}  // namespace

void add_bench_gpu_command(CLI::App& bench, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand("gpu", "What the GPU can do at best, and its kernels beside that");
  command.footer(kExamples);
  add_number<int32_t>(command, "--gigabytes", options->gigabytes, {.lowest = 1, .highest = 1024},
                      "GiB to read and to copy (default 8; the copy needs twice as much)");
  command
      .add_option("--file", options->file,
                  "instead of all that: how fast this file gets into the GPU's memory, as weights do")
      ->type_name("FILE");
  command.add_flag("--json", options->json, "print one JSON object a result");
  command.callback([options, &action] { action = [options] { return bench_gpu(*options); }; });
}

}  // namespace deepinfer::cli
