// `deepinfer bench tokenizer`: encoding speed on files.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/topology.h"
#include "bench/tokenizer_bench.h"
#include "bench_report.h"
#include "command.h"
#include "model_location.h"
#include "number_option.h"
#include "text/tokenizer.h"
#include "text_input.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  bench/make_corpora.sh /tmp/corpora && deepinfer bench tokenizer /tmp/corpora/english.txt
  deepinfer bench tokenizer --tokenizer tokenizer.json --threads 8 book.txt code.txt)";

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
  BenchReport report(options.json, bench::hardware_text(cpu_path_name()));
  return report.finish(bench::bench_tokenizer(**tokenizer, texts, threads, options.samples.value_or(3), report));
}

}  // namespace

void add_bench_tokenizer_command(CLI::App& bench, Action& action) {
  auto options = std::make_shared<BenchTokenizerOptions>();
  CLI::App& command = *bench.add_subcommand("tokenizer", "Encoding speed on files");
  command.footer(kExamples);
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

}  // namespace deepinfer::cli
