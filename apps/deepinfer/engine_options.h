// The options of commands that run the many-request engine (`batch`, `bench throughput`): which model, how much of it
// at a time, and the engine that they open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/metrics/chrome_trace.h"
#include "engine/metrics/engine_metrics.h"
#include "engine/metrics/step_profile.h"
#include "engine/request_log/request_log.h"
#include "generation_defaults.h"
#include "model_options.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

struct EngineCommandOptions {
  std::optional<std::string> model;
  std::optional<int32_t> threads;
  std::optional<int32_t> max_sequences;
  std::optional<double> cache_memory;    // GB; on a GPU without it: what is left
  std::optional<double> kv_host_memory;  // GB
  std::optional<int64_t> max_context;
  std::optional<int64_t> step_rows;
  std::optional<int64_t> decode_latency_ms;
  std::optional<int32_t> draft_tokens;
  DraftSchedule draft_schedule = DraftSchedule::kFresh;
  bool no_prefix_cache = false;
  BackendChoice backend;
  std::optional<int64_t> log_stats;  // steps between two lines
  std::optional<std::string> trace;
  std::optional<std::string> request_log;

  int sequences() const { return max_sequences.value_or(EngineOptions().max_sequences); }
};

// Ranges are checked while the command line is read.
void add_engine_options(CLI::App& command, EngineCommandOptions& options);
// --request-log, of commands that answer requests.
void add_request_log_option(CLI::App& command, EngineCommandOptions& options);

struct LoadedEngine {
  std::filesystem::path folder;
  std::string name;  // the folder's name, or the repository id that was asked for
  GenerationDefaults defaults;
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<EngineMetrics> metrics;
  std::shared_ptr<StepProfile> profile;
  std::shared_ptr<ChromeTrace> trace;       // null: none was asked for
  std::shared_ptr<RequestLog> request_log;  // null: none was asked for
  EngineOptions options;                    // of the engine
  std::unique_ptr<Engine> engine;           // goes first

  // What a log of this engine's requests begins with.
  Result<RequestLogHeader> log_header() const;
  // Closes the engine, the trace and the request log; the error of the file that could not be written.
  Status close();
};

// base: what no option says, such as a model in place of the folder's weights.
Result<LoadedEngine> open_engine(const EngineCommandOptions& options, EngineOptions base = {});

}  // namespace deepinfer::cli
