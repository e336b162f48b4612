// `deepinfer replay`: runs the requests of a log again and says whether every answer is the same, bit for bit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/named_backend.h"
#include "command.h"
#include "engine/tiers/tier_identity.h"
#include "engine_options.h"
#include "json_output.h"
#include "replay/replay_run.h"
#include "standard_output.h"
#include "terminal.h"
#include "version.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer batch requests.jsonl -o results.jsonl --request-log run.log
  deepinfer replay run.log
  deepinfer replay run.log --max-sequences 1 --draft-tokens 0 --no-prefix-cache
  deepinfer replay run.log --speed recorded --trace trace.json

The engine has the log's limits, but for the options that are given here: none of them changes an answer. An answer that
was cancelled or out of time is compared as far as it goes. Exit code 0: all answers that could be compared are the same;
5: some differ.)";

struct Options {
  std::string log;
  EngineCommandOptions engine;
  bool recorded_speed = false;
  bool json = false;
};

// The log's engine, where the command line says nothing else.
EngineCommandOptions engine_of(const EngineCommandOptions& given, const RequestLogHeader& header) {
  EngineCommandOptions options = given;
  if (!options.max_sequences) options.max_sequences = header.max_sequences;
  if (!options.max_context) options.max_context = header.max_context;
  if (!options.step_rows) options.step_rows = std::max(header.step_rows, int64_t{*options.max_sequences});
  if (!options.cache_memory && header.cache_bytes > 0)
    options.cache_memory = static_cast<double>(header.cache_bytes) / 1e9;
  if (!header.prefix_cache) options.no_prefix_cache = true;
  if (options.backend.name.empty()) options.backend.name = backend_name_of_path(header.backend);
  return options;
}

// Why answers may differ although nothing is wrong.
std::vector<std::string> mismatches(const RequestLogHeader& was, const RequestLogHeader& is) {
  std::vector<std::string> list;
  if (was.model != is.model)
    list.push_back(fmt::format("the log is of other weights: {} ({}), this model is {} ({})", was.model_name, was.model,
                               is.model_name, is.model));
  if (was.backend != is.backend)
    list.push_back(fmt::format("the log was made with {}, this machine runs {}", was.backend, is.backend));
  if (was.program != is.program)
    list.push_back(
        fmt::format("the log was made by another build, of commit {}; this one is of {}", was.build, is.build));
  return list;
}

ExitCode run(const Options& options) {
  Result<RequestLogContents> log = read_request_log(options.log);
  if (!log.ok()) return report_error(log.status());
  const EngineCommandOptions engine = engine_of(options.engine, log->header);
  Result<LoadedEngine> loaded = open_engine(engine);
  if (!loaded.ok()) return report_error(loaded.status());
  const Result<RequestLogHeader> own = loaded->log_header();
  if (!own.ok()) return report_error(own.status());
  const std::vector<std::string> warnings = mismatches(log->header, *own);
  for (const std::string& warning : warnings)
    write_standard_error(fmt::format("deepinfer: warning: {}; answers may differ\n", warning));
  const bool torn = log->torn;
  if (torn) write_standard_error("deepinfer: warning: the last line of the log is torn and was left out\n");

  Json differences = Json::array();
  StandardOutput out;
  ReplayOptions how;
  how.recorded_speed = options.recorded_speed;
  how.submitted = 4 * int64_t{engine.sequences()};
  if (engine.draft_tokens) how.draft_tokens = *engine.draft_tokens;
  const ReplayCounts counts =
      replay(*loaded->engine, std::move(*log), how, [&](RequestId id, const std::string& difference) {
        if (options.json) {
          differences.push_back({{"request", id}, {"difference", difference}});
        } else {
          out.write(fmt::format("request {}: {}\n", id, difference));
        }
      });
  if (const Status closed = loaded->close(); !closed.ok()) return report_error(closed);
  if (options.json) {
    out.write(json_line({{"same", counts.same},
                         {"different", counts.different},
                         {"unfinished", counts.unfinished},
                         {"rejection_sampled", counts.drafted},
                         {"other_weights", counts.other_weights},
                         {"nothing_to_compare", counts.empty},
                         {"torn", torn},
                         {"mismatches", warnings},
                         {"differences", std::move(differences)}}));
  } else {
    out.write(fmt::format("{} of {} answers are the same, bit for bit\n", counts.same, counts.same + counts.different));
    const std::pair<int64_t, const char*> others[] = {
        {counts.unfinished, "the log has no end of them"},
        {counts.drafted, "speculative_sampling is rejection, every run has its own answers"},
        {counts.other_weights, "they were made with weights that came later"},
        {counts.empty, "they ended before their first token"}};
    for (const auto& [count, why] : others)
      if (count > 0) out.write(fmt::format("not compared: {}, {}\n", count, why));
  }
  if (!out.status().ok()) return report_error(out.status());
  return counts.different == 0 ? ExitCode::kOk : ExitCode::kDifferent;
}

}  // namespace

void add_replay_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  options->engine.backend.name.clear();
  CLI::App& command = *program.add_subcommand("replay", "Run the requests of a log again and compare the answers");
  command.footer(kExamples);
  command.add_option("log", options->log, "a file that --request-log wrote")->type_name("FILE")->required();
  command
      .add_option_function<std::string>(
          "--speed",
          [options](const std::string& name) {
            if (name != "asap" && name != "recorded")
              throw CLI::ValidationError("--speed", "`" + name + "` is not allowed, allowed: asap, recorded");
            options->recorded_speed = name == "recorded";
          },
          "asap (default): as fast as the engine takes them; recorded: each request when it came")
      ->type_name("NAME");
  command.add_flag("--json", options->json, "print one JSON object");
  add_engine_options(command, options->engine);
  command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace deepinfer::cli
