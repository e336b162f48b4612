// `deepinfer bench model`: the demonstration model as a user runs it, or synthetic layers of the released dimensions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "bench/model_bench.h"
#include "bench/released_config.h"
#include "bench_report.h"
#include "command.h"
#include "engine/generator.h"
#include "model_location.h"
#include "number_option.h"
#include "text_input.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer bench model                                          the demonstration model, as a user runs it
  deepinfer bench model --synthetic --config v4.1-flash --layers 4
  deepinfer bench model --synthetic --layers 2 --working-set 12 --json

--synthetic builds layers of the config's dimensions with generated weights: decode at batch 1 beside the read bandwidth,
prefill of 512 and 2048 tokens beside the roofline max(bytes / bandwidth, operations / peak). Expert e of all layers is the
same memory, experts of one layer never are; between two steps four times the last-level cache is read from elsewhere.
Where --working-set is too small for all experts of a layer there are fewer, and the result says how many bytes a step
touches. Limits are measured in turn with what they judge.)";

struct BenchModelOptions {
  std::optional<std::string> model;
  std::string config = "v4.1-flash";
  std::optional<int32_t> layers;
  std::optional<int32_t> threads;
  std::optional<int32_t> samples;
  std::optional<double> working_set;
  std::vector<int64_t> prefill;
  std::optional<int64_t> prefill_chunk;
  bool synthetic = false;
  bool profile = false;
  bool json = false;
};

Result<deepseek_v41::Config> config_of(const std::string& name) {
  if (name == "v4.1-flash" || name == "v41-flash")
    return deepseek_v41::parse_config(bench::released_config_json(), name);
  const std::filesystem::path path = name;
  if (std::filesystem::is_directory(path)) return deepseek_v41::load_config(path);
  DI_ASSIGN_OR_RETURN(const std::string text, read_bytes(path));
  return deepseek_v41::parse_config(text, name);
}

ExitCode bench_synthetic(const BenchModelOptions& options) {
  bench::SyntheticBenchOptions bench;
  Result<deepseek_v41::Config> config = config_of(options.config);
  if (!config.ok()) return report_error(config.status());
  bench.config = std::move(*config);
  bench.layers = options.layers.value_or(4);
  bench.threads = options.threads.value_or(0);
  bench.samples = options.samples.value_or(9);
  if (!options.prefill.empty()) bench.prefill = options.prefill;
  bench.prefill_chunk = options.prefill_chunk.value_or(kPrefillChunk);
  bench.profile = options.profile;
  bench.memory_bytes = memory_bytes_or_half(options.working_set);
  CpuOpsOptions cpu;
  cpu.threads.threads = bench.threads;
  auto ops = make_cpu_ops(cpu);
  if (!ops.ok()) return report_error(ops.status());
  BenchReport report(options.json, bench::hardware_text((*ops)->name()));
  return report.finish(bench::bench_synthetic_model(bench, **ops, report));
}

ExitCode bench_program(const BenchModelOptions& options) {
  const Result<std::filesystem::path> folder = locate_model(options.model);
  if (!folder.ok()) return report_error(folder.status());
  std::error_code error;
  const bench::ModelBenchOptions bench{.program = std::filesystem::read_symlink("/proc/self/exe", error),
                                       .folder = *folder,
                                       .threads = options.threads.value_or(0),
                                       .samples = options.samples.value_or(9)};
  BenchReport report(options.json, bench::hardware_text(cpu_path_name()));
  return report.finish(bench::bench_model(bench, report));
}

}  // namespace

void add_bench_model_command(CLI::App& bench, Action& action) {
  auto options = std::make_shared<BenchModelOptions>();
  CLI::App& command = *bench.add_subcommand("model", "A whole model, or layers of the released dimensions");
  command.footer(kExamples);
  auto* synthetic =
      command.add_flag("--synthetic", options->synthetic, "layers with generated weights instead of a model");
  command.add_option("-m,--model", options->model, "model folder or repository id (default: the demonstration model)")
      ->type_name("MODEL")
      ->excludes(synthetic);
  command
      .add_option("--config", options->config, "with --synthetic: v4.1-flash (default), or a config.json or its folder")
      ->type_name("CONFIG")
      ->needs(synthetic);
  add_number<int32_t>(command, "--layers", options->layers, {.lowest = 1, .highest = 64},
                      "with --synthetic: layers (default 4)")
      ->needs(synthetic);
  command
      .add_option_function<std::vector<std::string>>(
          "--prefill",
          [options](const std::vector<std::string>& lengths) {
            for (const std::string& text : lengths) {
              const Result<int64_t> length = parse_number<int64_t>(text, {.lowest = 1, .highest = 1 << 20});
              if (!length.ok()) throw CLI::ValidationError("--prefill", length.status().message());
              options->prefill.push_back(*length);
            }
          },
          "with --synthetic: prompt lengths (default 512,2048)")
      ->delimiter(',')
      ->type_name("N,...")
      ->needs(synthetic);
  add_number<int64_t>(command, "--prefill-chunk", options->prefill_chunk, {.lowest = 1, .highest = 65536},
                      "with --synthetic: prompt tokens a step (default: 2048)")
      ->needs(synthetic);
  add_number<double>(command, "--working-set", options->working_set, {.lowest = 0.1, .highest = 100000},
                     "with --synthetic: most memory in GB (default: half of this machine's)")
      ->needs(synthetic);
  command.add_flag("--profile", options->profile, "with --synthetic: also the time of every operation")
      ->needs(synthetic);
  add_number<int32_t>(command, "--threads", options->threads, {.lowest = 1, .highest = 1024},
                      "threads (default: one per physical core)");
  add_number<int32_t>(command, "--samples", options->samples, {.lowest = 1, .highest = 1000},
                      "samples a median is taken of (default 9)");
  command.add_flag("--json", options->json, "print one JSON object a result");
  command.callback([options, &action] {
    action = [options] { return options->synthetic ? bench_synthetic(*options) : bench_program(*options); };
  });
}

}  // namespace deepinfer::cli
