// `deepinfer bench throughput`, `latency` and `sweep`: the engine under load, as its users see it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench_result.h"
#include "bench_report.h"
#include "command.h"
#include "engine_options.h"
#include "load/arriving_prompt.h"
#include "load/load_run.h"
#include "load/workload_options.h"
#include "number_option.h"
#include "text/json_text.h"
#include "version.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer bench throughput --concurrency 32 --draft-tokens 0
  deepinfer bench latency --concurrency 8 --workload sharegpt --requests 100
  deepinfer bench latency --concurrency 4 --arriving-prompt-tokens 100000 --max-context 131072
  deepinfer bench sweep --concurrency 1,2,4,8,16,32 -o sweep.json && tools/plots/plot_sweep.py sweep.json

Workloads: random (tokens drawn at random, lengths --prompt-tokens and --answer-tokens), sharegpt (random tokens with the
lengths of chats: log-normal, medians 81 and 134), or a file of JSON lines, each a string or {"prompt", "max_tokens"}.
Answers have their full length: end tokens do not end them. A fixed number of requests runs at a time.)";

enum class Kind { kThroughput, kLatency, kSweep };

struct Options {
  EngineCommandOptions engine;
  WorkloadCommandOptions workload;
  std::vector<int64_t> concurrency;
  std::optional<int64_t> arriving_prompt_tokens;
  std::optional<std::string> output;
  bool json = false;
};

WorkloadOptions workload_of(const Options& options) {
  return options.workload.workload(options.engine.draft_tokens.value_or(-1));
}

// One measurement; the same prompts for every concurrency, but nothing of the ones before in the prefix cache.
Result<LoadResult> measure(const Options& options, const LoadedEngine& loaded, int64_t concurrency, uint64_t salt) {
  WorkloadOptions workload = workload_of(options);
  DI_ASSIGN_OR_RETURN(std::vector<EngineRequest> requests,
                      make_workload(workload, *loaded.tokenizer, options.workload.requests.value_or(4 * concurrency)));
  workload.seed = ~workload.seed;
  workload.answer_tokens = 8;
  DI_ASSIGN_OR_RETURN(std::vector<EngineRequest> warm_up, make_workload(workload, *loaded.tokenizer, concurrency));
  for (std::vector<EngineRequest>* list : {&warm_up, &requests})
    for (EngineRequest& request : *list) request.cache_salt = salt;
  for (EngineRequest& request : warm_up) request.params.max_tokens = std::min<int64_t>(request.params.max_tokens, 8);
  DI_RETURN_IF_ERROR(run_load(*loaded.engine, std::move(warm_up), concurrency).status());
  return run_load(*loaded.engine, std::move(requests), concurrency);
}

std::string note_of(const LoadResult& result) {
  return fmt::format(
      "{} requests, {} prompt and {} answer tokens, {} steps, {:.2f} tokens a round, steps {:.1f} % and "
      "planning {:.1f} % of {:.2f} s",
      result.requests, result.prompt_tokens, result.answer_tokens, result.steps, result.tokens_per_round(),
      100 * result.step_seconds / result.seconds, 100 * result.plan_seconds / result.seconds, result.seconds);
}

void report_throughput(const LoadResult& result, BenchReport& report) {
  const std::string at = fmt::format(", {} at a time", result.concurrency);
  report({"answer tokens" + at, result.tokens_per_second(), "tokens/s", {}, note_of(result)});
  report({"requests" + at, result.requests_per_second(), "requests/s", {}});
  report({"speed for one of them" + at, result.user_tokens_per_second, "tokens/s", {}});
}

void report_latency(const LoadResult& result, BenchReport& report) {
  const auto all = [&](const char* name, const Percentiles& values) {
    const std::pair<const char*, double> figures[] = {
        {"mean", values.mean}, {"median", values.p50}, {"p90", values.p90}, {"p99", values.p99}};
    for (const auto& [which, value] : figures)
      report({fmt::format("{}, {}, {} at a time", name, which, result.concurrency), 1e3 * value, "ms", {}});
  };
  all("first token", result.first_token);
  all("between tokens", result.inter_token);
  all("whole answer", result.request);
}

// A stream for each of the concurrency; it answers until the prompt that comes to them has its first token.
Result<ArrivingPromptResult> measure_arrival(const Options& options, const LoadedEngine& loaded, int64_t concurrency,
                                             uint64_t salt) {
  WorkloadOptions workload = workload_of(options);
  const int64_t alone_tokens = workload.answer_tokens;
  DI_ASSIGN_OR_RETURN(std::vector<EngineRequest> streams, make_workload(workload, *loaded.tokenizer, concurrency));
  workload.kind = WorkloadOptions::Kind::kRandom;
  workload.prompt_tokens = *options.arriving_prompt_tokens;
  workload.answer_tokens = 1;
  workload.spread = 0;
  workload.seed = ~workload.seed;
  DI_ASSIGN_OR_RETURN(std::vector<EngineRequest> prompts, make_workload(workload, *loaded.tokenizer, 1));
  for (EngineRequest& stream : streams) {
    stream.params.max_tokens = 0;  // what the context leaves
    stream.cache_salt = salt;
  }
  prompts.front().cache_salt = salt;
  return run_arriving_prompt(*loaded.engine, std::move(streams), std::move(prompts.front()), alone_tokens);
}

void report_arrival(const ArrivingPromptResult& result, std::chrono::milliseconds bound, BenchReport& report) {
  const std::string at = fmt::format(", {} streams", result.streams);
  report({"between tokens, median, nothing arriving" + at, 1e3 * result.alone.p50, "ms", {}});
  report({"between tokens, p99, nothing arriving" + at, 1e3 * result.alone.p99, "ms", {}});
  // What a stream may wait: a step of the streams themselves, or the bound.
  const double limit = std::max(1e3 * result.alone.p99, static_cast<double>(bound.count()));
  const std::string beside = fmt::format(", beside a prompt of {} tokens{}", result.prompt_tokens, at);
  report({"between tokens, median" + beside, 1e3 * result.beside.p50, "ms", limit});
  report({"between tokens, p99" + beside, 1e3 * result.beside.p99, "ms", limit,
          fmt::format("{} waits, {} steps", result.waits_beside, result.steps_beside)});
  report({"between tokens, longest" + beside, 1e3 * result.longest_beside, "ms", limit});
  report({fmt::format("first token of {} tokens{}", result.prompt_tokens, at), 1e3 * result.first_token, "ms", {}});
}

Json percentiles_json(const Percentiles& values) {
  return {{"mean", values.mean}, {"p50", values.p50}, {"p90", values.p90}, {"p99", values.p99}};
}

Json point_json(const LoadResult& result) {
  return {{"concurrency", result.concurrency},
          {"requests", result.requests},
          {"prompt_tokens", result.prompt_tokens},
          {"answer_tokens", result.answer_tokens},
          {"cached_tokens", result.cached_tokens},
          {"seconds", result.seconds},
          {"tokens_per_second", result.tokens_per_second()},
          {"requests_per_second", result.requests_per_second()},
          {"user_tokens_per_second", result.user_tokens_per_second},
          {"tokens_per_round", result.tokens_per_round()},
          {"drafted", result.drafted},
          {"accepted", result.accepted},
          {"steps", result.steps},
          {"step_seconds", result.step_seconds},
          {"plan_seconds", result.plan_seconds},
          {"first_token_seconds", percentiles_json(result.first_token)},
          {"inter_token_seconds", percentiles_json(result.inter_token)},
          {"request_seconds", percentiles_json(result.request)}};
}

Json arrival_json(const ArrivingPromptResult& result, std::chrono::milliseconds bound) {
  return {{"streams", result.streams},
          {"arriving_prompt_tokens", result.prompt_tokens},
          {"decode_latency_seconds", 1e-3 * static_cast<double>(bound.count())},
          {"alone_seconds", percentiles_json(result.alone)},
          {"beside_seconds", percentiles_json(result.beside)},
          {"longest_beside_seconds", result.longest_beside},
          {"waits_beside", result.waits_beside},
          {"steps_beside", result.steps_beside},
          {"first_token_seconds", result.first_token}};
}

Status write_sweep(const std::string& file, const Options& options, const LoadedEngine& loaded, Json points) {
  const WorkloadOptions workload = workload_of(options);
  constexpr const char* kNames[] = {"random", "sharegpt", "file"};
  Json document{{"model", loaded.name},
                {"hardware", bench::hardware_text(loaded.engine->backend_name())},
                {"commit", commit_id()},
                {"workload",
                 {{"kind", kNames[static_cast<int>(workload.kind)]},
                  {"prompt_tokens", workload.prompt_tokens},
                  {"answer_tokens", workload.answer_tokens},
                  {"spread", workload.spread},
                  {"temperature", workload.temperature},
                  {"draft_tokens", workload.draft_tokens},
                  {"seed", workload.seed}}},
                {"points", std::move(points)}};
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << document.dump(1) << '\n';
  out.close();
  return out ? Status() : io_error(fmt::format("{}: cannot be written", file));
}

ExitCode run(Kind kind, const Options& given) {
  Options options = given;
  std::vector<int64_t> concurrency = options.concurrency;
  if (concurrency.empty()) {
    concurrency = {32};
    if (kind == Kind::kLatency) concurrency = {8};
    if (kind == Kind::kSweep) concurrency = {1, 2, 4, 8, 16, 32};
  }
  for (const int64_t one : concurrency)
    if (one < 1 || one > 4096)
      return report_usage_error(fmt::format("--concurrency: {} is out of range, allowed: [1, 4096]", one));
  // Everybody runs at the same time unless the engine was asked to take fewer.
  if (!options.engine.max_sequences)
    options.engine.max_sequences = static_cast<int32_t>(*std::max_element(concurrency.begin(), concurrency.end()) +
                                                        (options.arriving_prompt_tokens ? 1 : 0));
  if (!options.engine.step_rows && *options.engine.max_sequences > EngineOptions().step_rows)
    options.engine.step_rows = *options.engine.max_sequences;
  Result<LoadedEngine> loaded = open_engine(options.engine);
  if (!loaded.ok()) return report_error(loaded.status());
  BenchReport report(options.json, bench::hardware_text(loaded->engine->backend_name()));
  Json points = Json::array();
  const auto measure_all = [&]() -> Status {
    for (size_t i = 0; i < concurrency.size(); ++i) {
      if (options.arriving_prompt_tokens) {
        DI_ASSIGN_OR_RETURN(const ArrivingPromptResult result,
                            measure_arrival(options, *loaded, concurrency[i], i + 1));
        report_arrival(result, loaded->options.decode_latency, report);
        points.push_back(arrival_json(result, loaded->options.decode_latency));
        continue;
      }
      DI_ASSIGN_OR_RETURN(const LoadResult result, measure(options, *loaded, concurrency[i], i + 1));
      if (kind == Kind::kLatency) {
        report_latency(result, report);
      } else {
        report_throughput(result, report);
      }
      points.push_back(point_json(result));
    }
    if (options.output) DI_RETURN_IF_ERROR(write_sweep(*options.output, options, *loaded, std::move(points)));
    return loaded->close();
  };
  return report.finish(measure_all());
}

void add_load_command(CLI::App& bench, Action& action, Kind kind, const char* name, const char* help,
                      const char* default_concurrency) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand(name, help);
  command.footer(kExamples);
  command
      .add_option("--concurrency", options->concurrency,
                  fmt::format("requests at a time, several separated by commas (default: {})", default_concurrency))
      ->delimiter(',')
      ->type_name("N");
  if (kind == Kind::kLatency) {
    add_number<int64_t>(command, "--arriving-prompt-tokens", options->arriving_prompt_tokens,
                        {.lowest = 1, .highest = 1 << 20},
                        "instead: what running streams wait for their tokens while a prompt of so many comes; they "
                        "have --answer-tokens tokens before it");
  }
  command.add_option("-o,--output", options->output, "write all figures as one JSON object to FILE")->type_name("FILE");
  command.add_flag("--json", options->json, "print one JSON object a result");
  add_workload_options(command, options->workload);
  add_engine_options(command, options->engine);
  add_request_log_option(command, options->engine);
  command.callback([kind, options, &action] { action = [kind, options] { return run(kind, *options); }; });
}

}  // namespace

void add_bench_load_commands(CLI::App& bench, Action& action) {
  add_load_command(bench, action, Kind::kThroughput, "throughput", "Tokens a second of the engine with many requests",
                   "32");
  add_load_command(bench, action, Kind::kLatency, "latency", "What a request waits for its tokens", "8");
  add_load_command(bench, action, Kind::kSweep, "sweep", "Throughput against the speed for one, over the concurrency",
                   "1,2,4,8,16,32");
}

}  // namespace deepinfer::cli
