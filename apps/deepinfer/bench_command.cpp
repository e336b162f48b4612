// `deepinfer bench`: figures of this machine, each beside what the machine can do at best.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "base/topology.h"
#include "bench/bench_result.h"
#include "bench/model_bench.h"
#include "bench/released_config.h"
#include "bench/tokenizer_bench.h"
#include "command.h"
#include "model_location.h"
#include "number_option.h"
#include "standard_output.h"
#include "text/tokenizer.h"
#include "text_input.h"
#include "version.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kModelExamples = R"(Examples:
  deepinfer bench model                                          the demonstration model, as a user runs it
  deepinfer bench model --synthetic --config v4.1-flash --layers 4
  deepinfer bench model --synthetic --layers 2 --working-set 12 --json

--synthetic builds layers of the config's dimensions with generated weights: decode at batch 1 beside the read bandwidth,
prefill of 512 and 2048 tokens beside the roofline max(bytes / bandwidth, operations / peak). Expert e of all layers is the
same memory, experts of one layer never are; between two steps four times the last-level cache is read from elsewhere.
Where --working-set is too small for all experts of a layer there are fewer, and the result says how many bytes a step
touches. Limits are measured in turn with what they judge.)";

constexpr const char* kTokenizerExamples = R"(Examples:
  bench/make_corpora.sh /tmp/corpora && deepinfer bench tokenizer /tmp/corpora/english.txt
  deepinfer bench tokenizer --tokenizer tokenizer.json --threads 8 book.txt code.txt)";

constexpr const char* kBenchExamples = R"(Examples:
  deepinfer bench model --help
  deepinfer bench tokenizer book.txt --json

--json prints one object a result: name, value, unit, limit, ratio, hardware, commit. A ratio of 1 is the limit reached.)";

// Prints results as they come.
class Report {
 public:
  Report(bool json, std::string hardware) : json_(json), hardware_(std::move(hardware)) {
    if (!json_) out_.write(fmt::format("{}, commit {}\n", hardware_, commit_id()));
  }
  void operator()(const bench::BenchResult& result) {
    out_.write(json_ ? bench::result_json(result, hardware_, commit_id()) : bench::result_line(result));
  }
  ExitCode finish(const Status& status) const {
    if (!status.ok()) return report_error(status);
    return out_.status().ok() ? ExitCode::kOk : report_error(out_.status());
  }

 private:
  bool json_;
  std::string hardware_;
  StandardOutput out_;
};

std::string cpu_backend_name() {
  const Result<CpuIsa> isa = select_cpu_isa();
  return isa.ok() ? fmt::format("cpu/{}", to_string(*isa)) : "no CPU path";
}

struct BenchModelOptions {
  std::optional<std::string> model;
  std::string config = "v4.1-flash";
  std::optional<int32_t> layers;
  std::optional<int32_t> threads;
  std::optional<int32_t> samples;
  std::optional<double> working_set;
  bool synthetic = false;
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
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  bench.memory_bytes = static_cast<uint64_t>(options.working_set ? *options.working_set * 1e9 : memory / 2);
  CpuOpsOptions cpu;
  cpu.threads.threads = bench.threads;
  auto ops = make_cpu_ops(cpu);
  if (!ops.ok()) return report_error(ops.status());
  Report report(options.json, bench::hardware_text((*ops)->name()));
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
  Report report(options.json, bench::hardware_text(cpu_backend_name()));
  return report.finish(bench::bench_model(bench, report));
}

void add_bench_model(CLI::App& bench, Action& action) {
  auto options = std::make_shared<BenchModelOptions>();
  CLI::App& command = *bench.add_subcommand("model", "A whole model, or layers of the released dimensions");
  command.footer(kModelExamples);
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
  add_number<double>(command, "--working-set", options->working_set, {.lowest = 0.1, .highest = 100000},
                     "with --synthetic: most memory in GB (default: half of this machine's)")
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

struct BenchTokenizerOptions {
  std::optional<std::string> model;
  std::optional<std::string> tokenizer;
  std::vector<std::string> files;
  std::optional<int32_t> threads;
  std::optional<int32_t> samples;
  bool json = false;
};

ExitCode bench_tokenizer(const BenchTokenizerOptions& options) {
  std::filesystem::path file = options.tokenizer.value_or("");
  if (!options.tokenizer) {
    const Result<std::filesystem::path> folder = locate_model(options.model);
    if (!folder.ok()) return report_error(folder.status());
    file = *folder / "tokenizer.json";
  }
  const auto tokenizer = Tokenizer::load(file);
  if (!tokenizer.ok()) return report_error(tokenizer.status());
  std::vector<bench::TokenizerSample> texts;
  for (const std::string& name : options.files) {
    Result<std::string> text = read_bytes(name);
    if (!text.ok()) return report_error(text.status());
    texts.push_back({std::filesystem::path(name).filename().string(), std::move(*text)});
  }
  const int threads = options.threads.value_or(read_topology().usable_threads());
  Report report(options.json, bench::hardware_text(cpu_backend_name()));
  return report.finish(bench::bench_tokenizer(**tokenizer, texts, threads, options.samples.value_or(3), report));
}

void add_bench_tokenizer(CLI::App& bench, Action& action) {
  auto options = std::make_shared<BenchTokenizerOptions>();
  CLI::App& command = *bench.add_subcommand("tokenizer", "Encoding speed on files");
  command.footer(kTokenizerExamples);
  command.add_option("files", options->files, "texts to encode")->type_name("FILE")->required();
  auto* model =
      command.add_option("-m,--model", options->model, "whose tokenizer (default: the demonstration model's)")
          ->type_name("MODEL");
  command.add_option("--tokenizer", options->tokenizer, "a tokenizer.json")->type_name("FILE")->excludes(model);
  add_number<int32_t>(command, "--threads", options->threads, {.lowest = 1, .highest = 1024},
                      "threads of the second measurement (default: one per physical core)");
  add_number<int32_t>(command, "--samples", options->samples, {.lowest = 1, .highest = 1000}, "passes (default 3)");
  command.add_flag("--json", options->json, "print one JSON object a result");
  command.callback([options, &action] { action = [options] { return bench_tokenizer(*options); }; });
}

}  // namespace

void add_bench_command(CLI::App& program, Action& action) {
  CLI::App& bench =
      *program.add_subcommand("bench", "Measure kernels, models and tokenizers beside this machine's limits");
  bench.footer(kBenchExamples);
  bench.require_subcommand(1);
  add_bench_model(bench, action);
  add_bench_tokenizer(bench, action);
}

}  // namespace deepinfer::cli
