#include "engine_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "backends/cpu/peak_rate.h"
#include "choice_option.h"
#include "engine/metrics/stats_line.h"
#include "model_location.h"
#include "model_options.h"
#include "number_option.h"
#include "ops/ops.h"
#include "terminal.h"
#include "version.h"

namespace deepinfer::cli {
namespace {

ThreadPoolOptions threads_of(const EngineCommandOptions& options) {
  ThreadPoolOptions threads;
  threads.threads = options.threads.value_or(0);
  return threads;
}

std::string memory_plan_text(const std::vector<MemoryPlanLine>& plan) {
  std::string text = "deepinfer: memory of the GPU\n";
  for (const MemoryPlanLine& line : plan)
    text += fmt::format("  {:>9.3f} GB  {}: {}\n", static_cast<double>(line.bytes) / 1e9, line.name, line.detail);
  return text;
}

int64_t default_decode_latency_ms(const std::string& backend) {
  return backend == "cuda" ? 50 : EngineOptions().decode_latency.count();
}

}  // namespace

void add_engine_options(CLI::App& command, EngineCommandOptions& options) {
  constexpr const char* kGroup = "Engine";
  add_model_and_threads(command, options.model, options.threads, kGroup);
  add_number<int32_t>(command, "--max-sequences", options.max_sequences, {.lowest = 1, .highest = 4096},
                      "requests that run at the same time (default: 32); never changes an answer")
      ->group(kGroup);
  add_number<double>(command, "--cache-memory", options.cache_memory, {.lowest = 0, .lowest_excluded = true},
                     "GB for cached records (default: 1.07; on a GPU what weights and scratch memory leave)")
      ->group(kGroup);
  add_number<double>(command, "--kv-host-memory", options.kv_host_memory, {.lowest = 0, .lowest_excluded = true},
                     "GB of host memory for prefixes that the cache has evicted and for preempted requests (default: "
                     "none); never changes an answer")
      ->group(kGroup);
  command.add_flag("--no-prefix-cache", options.no_prefix_cache, "prompts share nothing with earlier ones")
      ->group(kGroup);
  add_number<int64_t>(command, "--max-context", options.max_context, {.lowest = 1},
                      "longest sequence in tokens (default: the model's own, or what the cache holds)")
      ->group(kGroup);
  add_number<int64_t>(command, "--step-rows", options.step_rows, {.lowest = 1, .highest = 65536},
                      "most rows of a step (default: 512); never changes an answer")
      ->group(kGroup);
  add_number<int64_t>(command, "--decode-latency-ms", options.decode_latency_ms, {.lowest = 1, .highest = 3'600'000},
                      "prompts take no more of a step than lets it end in this time while others answer (default: 250 "
                      "on a CPU, 50 on a GPU); never changes an answer")
      ->group(kGroup);
  add_number<int32_t>(
      command, "--draft-tokens", options.draft_tokens, {.lowest = 0, .highest = 64},
      "most drafts verified a round (default: the model's own number, 0: none); never changes an answer")
      ->group(kGroup);
  add_choice<DraftSchedule>(
      command, "--draft-schedule", options.draft_schedule,
      {{"all", DraftSchedule::kAll},
       {"causal", DraftSchedule::kCausal},
       {"fresh", DraftSchedule::kFresh},
       {"lagged", DraftSchedule::kLagged}},
      "how many of the drafts are verified: all, causal, lagged or fresh (default); never changes an answer", kGroup);
  add_backend(command, options.backend, kGroup);
  add_number<int64_t>(command, "--log-stats", options.log_stats, {.lowest = 1},
                      "a line of statistics on standard error every N steps")
      ->group(kGroup);
  command
      .add_option("--trace", options.trace, "write what the engine does when to FILE, for chrome://tracing or Perfetto")
      ->type_name("FILE")
      ->group(kGroup);
}

void add_request_log_option(CLI::App& command, EngineCommandOptions& options) {
  command
      .add_option("--request-log", options.request_log,
                  "write every request and answer to FILE, a new one, for `deepinfer replay`")
      ->type_name("FILE")
      ->group("Engine");
}

Result<RequestLogHeader> LoadedEngine::log_header() const {
  return request_log_header(*engine, options, commit_id(), name);
}

Status LoadedEngine::close() {
  engine.reset();
  const Status traced = trace ? trace->close() : Status();
  const Status logged = request_log ? request_log->close() : Status();
  return traced.ok() ? logged : traced;
}

Result<LoadedEngine> open_engine(const EngineCommandOptions& options, EngineOptions base) {
  LoadedEngine loaded;
  loaded.options = std::move(base);
  DI_ASSIGN_OR_RETURN(loaded.folder, locate_model(options.model));
  loaded.name = options.model && !std::filesystem::is_directory(*options.model)
                    ? *options.model
                    : std::filesystem::weakly_canonical(loaded.folder).filename().string();
  DI_ASSIGN_OR_RETURN(loaded.defaults, read_generation_defaults(loaded.folder));
  DI_ASSIGN_OR_RETURN(loaded.tokenizer, Tokenizer::load(loaded.folder / "tokenizer.json"));
  if (loaded.defaults.end_tokens.empty())
    if (const auto end = loaded.tokenizer->added_id("<｜end▁of▁sentence｜>"))
      loaded.defaults.end_tokens.push_back(*end);
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, make_backend(options.backend, options.threads));
  EngineOptions& engine = loaded.options;
  engine.model = loaded.folder;
  engine.placement = options.backend.placement();
  engine.max_context = options.max_context.value_or(0);
  engine.max_sequences = options.sequences();
  engine.step_rows = options.step_rows.value_or(engine.step_rows);
  engine.decode_latency =
      std::chrono::milliseconds(options.decode_latency_ms.value_or(default_decode_latency_ms(options.backend.name)));
  if (options.cache_memory) {
    engine.cache_bytes = std::llround(*options.cache_memory * 1e9);
  } else if (!ops->memory().is_host()) {
    engine.cache_bytes = 0;  // all that is left of the GPU's memory
  }
  if (options.kv_host_memory) engine.kv_host_bytes = static_cast<int64_t>(*options.kv_host_memory * 1e9);
  engine.prefix_cache = !options.no_prefix_cache;
  engine.draft_schedule = options.draft_schedule;
  loaded.metrics = std::make_shared<EngineMetrics>();
  engine.observers.push_back(loaded.metrics);
  loaded.profile = std::make_shared<StepProfile>();
  engine.observers.push_back(loaded.profile);
  if (options.log_stats)
    engine.observers.push_back(std::make_shared<StatsLine>(
        *options.log_stats,
        StatsLine::Limits{engine.step_rows, engine.max_sequences, measure_peak(ops->name(), threads_of(options))},
        [](std::string_view line) { write_standard_error(line); }));
  if (options.trace) {
    DI_ASSIGN_OR_RETURN(loaded.trace, ChromeTrace::create(*options.trace));
    engine.observers.push_back(loaded.trace);
  }
  if (options.request_log) {
    DI_ASSIGN_OR_RETURN(loaded.request_log, RequestLog::create(*options.request_log));
    engine.observers.push_back(loaded.request_log);
  }
  const bool device = !ops->memory().is_host();
  DI_ASSIGN_OR_RETURN(loaded.engine, Engine::open(engine, std::move(ops)));
  if (device) write_standard_error(memory_plan_text(loaded.engine->memory_plan()));
  if (loaded.request_log) {
    DI_ASSIGN_OR_RETURN(const RequestLogHeader header, loaded.log_header());
    loaded.request_log->begin(header);
  }
  return loaded;
}

}  // namespace deepinfer::cli
