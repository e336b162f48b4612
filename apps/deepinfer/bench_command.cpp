// `deepinfer bench`: figures of this machine, each beside what the machine can do at best.
#include <CLI/CLI.hpp>

#include "command.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer bench kernels
  deepinfer bench model --synthetic --layers 4
  deepinfer bench throughput --concurrency 32
  deepinfer bench serve --concurrency 64
  deepinfer bench tokenizer book.txt --json

--json prints one object a result: name, value, unit, limit, ratio, hardware, commit. A ratio of 1 is the limit reached.)";

}  // namespace

void add_bench_command(CLI::App& program, Action& action) {
  CLI::App& bench = *program.add_subcommand(
      "bench", "Measure kernels, models and tokenizers beside this machine's limits, and engine and server under load");
  bench.footer(kExamples);
  bench.require_subcommand(1);
  add_bench_kernels_command(bench, action);
  add_bench_gpu_command(bench, action);
  add_bench_gpu_model_command(bench, action);
  add_bench_model_command(bench, action);
  add_bench_load_commands(bench, action);
  add_bench_serve_command(bench, action);
  add_bench_tokenizer_command(bench, action);
}

}  // namespace deepinfer::cli
