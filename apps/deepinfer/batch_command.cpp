// `deepinfer batch`: a file of requests in OpenAI's batch format, answered into a file of results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "batch/batch_progress.h"
#include "command.h"
#include "engine_options.h"
#include "generation_options.h"
#include "interrupt.h"
#include "number_option.h"
#include "protocol_options.h"
#include "serving/batch/batch_job.h"
#include "terminal.h"
#include "version.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer batch requests.jsonl -o results.jsonl
  deepinfer batch requests.jsonl -o results.jsonl          the same again after an interruption: goes on where it stopped
  deepinfer batch - -o results.jsonl --max-sequences 64 < requests.jsonl

A line of the input: {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
Urls: /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages. A line of the results: id, custom_id, response
{status_code, request_id, body}, error; one for each line that is not empty, in the order of the input. A line that is no
request is an error in its result and never ends the job. Exit code 0: every line has its result.)";

struct Options {
  std::string input;
  std::string output;
  EngineCommandOptions engine;
  ProtocolCommandOptions protocol;
  std::optional<uint64_t> seed;
  std::optional<int64_t> created;
  SpeculativeSampling speculative_sampling = SpeculativeSampling::kExact;
  PrefixReplay prefix_replay = PrefixReplay::kExact;
  bool quiet = false;
};

serving::BatchContext make_context(const Options& options, const LoadedEngine& loaded) {
  serving::BatchContext context;
  serving::RequestContext& requests = context.requests;
  requests.tokenizer = loaded.tokenizer.get();
  requests.engine = loaded.engine.get();
  requests.end_tokens = loaded.defaults.end_tokens;
  options.protocol.apply(loaded.name, requests.protocol);
  requests.draft_tokens = options.engine.draft_tokens.value_or(-1);
  context.seed = options.seed.value_or(0);
  context.created = options.created.value_or(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  requests.speculative_sampling = options.speculative_sampling;
  requests.prefix_replay = options.prefix_replay;
  // The answers say of themselves what keeps them from being equal to others.
  requests.fingerprint = "deepinfer-" + commit_id();
  if (options.speculative_sampling == SpeculativeSampling::kRejection) requests.fingerprint += "-rejection";
  if (options.prefix_replay == PrefixReplay::kBounded) requests.fingerprint += "-bounded";
  return context;
}

ExitCode run(const Options& options) {
  Result<serving::BatchInput> input = serving::BatchInput::open(options.input);
  if (!input.ok()) return report_error(input.status());
  auto results = serving::BatchResults::open(options.output);
  if (!results.ok()) return report_error(results.status());
  if (input->is_same_file((*results)->descriptor()))
    return report_usage_error(fmt::format("{} is the input, the results need a file of their own", options.output));
  const Result<std::optional<int64_t>> lines = input->count_lines();
  if (!lines.ok()) return report_error(lines.status());
  const Result<int64_t> answered = serving::resume(*input, **results);
  if (!answered.ok()) return report_error(answered.status().with_context(options.output));

  serving::BatchCounts counts;
  counts.answered_before = *answered;
  if (*lines == *answered) {
    BatchProgress(*lines, options.quiet).finish(counts);
    return ExitCode::kOk;
  }
  Result<LoadedEngine> loaded = open_engine(options.engine);
  if (!loaded.ok()) return report_error(loaded.status());
  const serving::BatchContext context = make_context(options, *loaded);
  serving::BatchLimits limits;
  limits.submitted = [most = 4 * int64_t{options.engine.sequences()}] { return most; };
  limits.lines = 64 * int64_t{options.engine.sequences()};
  BatchProgress progress(*lines, options.quiet);
  std::atomic<bool> interrupted{false};
  Status status;
  {
    const InterruptScope scope([](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &interrupted);
    status = serving::run_batch(*input, **results, *loaded->engine, context, limits, interrupted, counts,
                                [&](const serving::BatchCounts& now) { progress.show(now); });
  }
  progress.finish(counts);
  const Status closed = loaded->close();
  if (status.code() == StatusCode::kCancelled) {
    if (!options.quiet) write_standard_error("interrupted; the same command goes on from here\n");
    return ExitCode::kInterrupted;
  }
  if (status.ok()) status = closed;
  return status.ok() ? ExitCode::kOk : report_error(status);
}

}  // namespace

void add_batch_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *program.add_subcommand("batch", "Answer a file of requests in OpenAI's batch format");
  command.footer(kExamples);
  command.add_option("requests", options->input, "the requests, one JSON object a line (-: standard input)")
      ->type_name("FILE")
      ->required();
  command
      .add_option("-o,--output", options->output,
                  "the results; lines that it holds already are not run again, see docs/batch.md")
      ->type_name("FILE")
      ->required();
  add_protocol_options(command, "--model-name", options->protocol);
  add_number<uint64_t>(command, "--seed", options->seed, {.lowest = 0},
                       "mixed into the seeds of requests that name none (default: 0)");
  add_number<int64_t>(command, "--created", options->created, {.lowest = 0},
                      "time of the answers in seconds since 1970 (default: now)");
  command
      .add_option_function<std::string>(
          "--prefill",
          [options](const std::string& name) {
            if (name != "exact" && name != "bounded-replay")
              throw CLI::ValidationError("--prefill", "`" + name + "` is not allowed, allowed: exact, bounded-replay");
            options->prefix_replay = name == "exact" ? PrefixReplay::kExact : PrefixReplay::kBounded;
          },
          "exact (default); bounded-replay: long prompts are faster, answers approximate")
      ->type_name("MODE");
  add_speculative_sampling(command, options->speculative_sampling);
  command.add_flag("-q,--quiet", options->quiet, "no progress on standard error");
  add_engine_options(command, options->engine);
  add_request_log_option(command, options->engine);
  command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace deepinfer::cli
