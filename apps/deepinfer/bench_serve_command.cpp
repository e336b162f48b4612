// `deepinfer bench serve`: what the server costs its users, beside the same requests to the engine without it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/median.h"
#include "bench/null_model.h"
#include "bench_report.h"
#include "command.h"
#include "engine_options.h"
#include "load/load_run.h"
#include "load/served_load.h"
#include "load/workload_options.h"
#include "number_option.h"
#include "serving/api/api.h"
#include "serving/http/http_server.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer bench serve --concurrency 64
  deepinfer bench serve --null-model --concurrency 1,64 --requests 640 --json

The server runs in this process, its client in a thread of it, on the loopback device: streams of /v1/completions with token
ids. The same requests go to the engine and to the server in turn, --rounds times; figures are medians of rounds, and a
limit is that of the engine. The server's part of a first token: the median that the client sees, less the engine's own of the
same requests. Its part of the processor time: that of this process without the client's thread, less that of the engine's
turn. A null model answers at once, so that only the cost of what is around a model is left.)";

constexpr const char* kModelName = "bench";

struct Options {
  EngineCommandOptions engine;
  WorkloadCommandOptions workload;
  std::vector<int64_t> concurrency;
  std::optional<int32_t> rounds;
  bool null_model = false;
  bool json = false;
};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What the engine itself says of its requests.
class EngineView final : public EngineObserver {
 public:
  void step_done(const StepPlan&, const StepOutcome&, const SchedulerStats&, const StepTimes&) override {}
  void request_ended(RequestId, const RequestSummary& summary, Time) override {
    const std::lock_guard lock(mutex_);
    first_tokens_.push_back(std::chrono::duration<double>(summary.first_token).count());
    answer_tokens_ += summary.answer_tokens;
  }
  // Of the requests that ended since the last call: the median of their first tokens, and all their tokens.
  std::pair<double, int64_t> take() {
    const std::lock_guard lock(mutex_);
    return {percentiles(std::exchange(first_tokens_, {})).p50, std::exchange(answer_tokens_, 0)};
  }

 private:
  std::mutex mutex_;
  std::vector<double> first_tokens_;  // seconds after submission
  int64_t answer_tokens_ = 0;
};

// The server around the engine, on a port of the loopback device.
class BenchServer {
 public:
  static Result<std::unique_ptr<BenchServer>> open(const LoadedEngine& loaded, int32_t draft_tokens,
                                                   int64_t concurrency) {
    auto server = std::unique_ptr<BenchServer>(new BenchServer(loaded, draft_tokens, concurrency));
    serving::HttpServerOptions http;
    http.listeners.emplace_back();
    DI_ASSIGN_OR_RETURN(server->http_, serving::HttpServer::open(std::move(http), [api = &server->api_](auto exchange) {
                          api->handle(std::move(exchange));
                        }));
    return server;
  }
  ~BenchServer() {
    if (http_) http_->close(std::chrono::milliseconds(0));
    api_.close();
  }
  int port() const { return http_->ports().front(); }

 private:
  BenchServer(const LoadedEngine& loaded, int32_t draft_tokens, int64_t concurrency)
      : api_(*loaded.engine, api_options(loaded, draft_tokens, concurrency)) {}

  static serving::ApiOptions api_options(const LoadedEngine& loaded, int32_t draft_tokens, int64_t concurrency) {
    serving::ApiOptions api;
    api.requests.tokenizer = loaded.tokenizer.get();
    api.requests.engine = loaded.engine.get();
    api.requests.end_tokens = loaded.defaults.end_tokens;
    api.requests.protocol.models = {kModelName};
    api.requests.draft_tokens = draft_tokens;
    api.most_waiting = static_cast<size_t>(concurrency);
    api.engine_metrics = loaded.metrics;
    return api;
  }

  serving::Api api_;
  std::unique_ptr<serving::HttpServer> http_;
};

struct Round {
  LoadResult alone;
  ServedLoadResult served;
  double alone_processor = 0, served_processor = 0;  // seconds, without the client
  double engine_first_token = 0;                     // median, of the served requests
  int64_t served_tokens = 0;
};

class Comparison {
 public:
  Comparison(const Options& options, LoadedEngine& loaded, EngineView& engine_view)
      : options_(options), loaded_(loaded), engine_view_(engine_view) {}

  Status run(int64_t concurrency, BenchReport& report) {
    DI_ASSIGN_OR_RETURN(const auto server, BenchServer::open(loaded_, draft_tokens(), concurrency));
    DI_RETURN_IF_ERROR(round(server->port(), concurrency, true).status());
    std::vector<Round> rounds;
    for (int i = 0; i < options_.rounds.value_or(5); ++i) {
      DI_ASSIGN_OR_RETURN(Round one, round(server->port(), concurrency, false));
      if (one.alone.answer_tokens != one.served_tokens)
        return {StatusCode::kInternal, fmt::format("{} answer tokens of the engine, {} of the server",
                                                   one.alone.answer_tokens, one.served_tokens)};
      rounds.push_back(std::move(one));
    }
    tell(rounds, concurrency, report);
    return {};
  }

 private:
  int32_t draft_tokens() const { return options_.engine.draft_tokens.value_or(-1); }

  // Requests whose prefixes no other run has.
  Result<std::vector<EngineRequest>> requests(int64_t concurrency, bool warm_up) {
    WorkloadOptions workload = options_.workload.workload(draft_tokens());
    if (warm_up) workload.answer_tokens = std::min<int64_t>(workload.answer_tokens, 8);
    const int64_t count = warm_up ? concurrency : options_.workload.requests.value_or(4 * concurrency);
    DI_ASSIGN_OR_RETURN(std::vector<EngineRequest> made, make_workload(workload, *loaded_.tokenizer, count));
    ++salt_;
    for (EngineRequest& request : made) request.cache_salt = salt_;
    return made;
  }

  Result<Round> round(int port, int64_t concurrency, bool warm_up) {
    Round out;
    DI_ASSIGN_OR_RETURN(std::vector<EngineRequest> alone, requests(concurrency, warm_up));
    double before = processor_seconds();
    DI_ASSIGN_OR_RETURN(out.alone, run_load(*loaded_.engine, std::move(alone), concurrency));
    out.alone_processor = processor_seconds() - before;
    DI_ASSIGN_OR_RETURN(const std::vector<EngineRequest> served, requests(concurrency, warm_up));
    std::vector<std::string> bodies;
    for (const EngineRequest& request : served) bodies.push_back(completion_body(request, kModelName));
    engine_view_.take();
    before = processor_seconds();
    DI_ASSIGN_OR_RETURN(out.served, run_served_load(port, bodies, concurrency));
    loaded_.engine->drain();
    out.served_processor = processor_seconds() - before - out.served.client_seconds;
    std::tie(out.engine_first_token, out.served_tokens) = engine_view_.take();
    return out;
  }

  static void tell(const std::vector<Round>& rounds, int64_t concurrency, BenchReport& report) {
    const auto median_of = [&](auto figure) {
      std::vector<double> values;
      for (const Round& round : rounds) values.push_back(figure(round));
      return bench::median(values);
    };
    const auto name = [&](const char* what) { return fmt::format("{}, {} at a time", what, concurrency); };
    const Round& any = rounds.front();
    const double events = static_cast<double>(any.served.events);
    report({name("answer tokens, served"),
            median_of([](const Round& r) { return static_cast<double>(r.served_tokens) / r.served.seconds; }),
            "tokens/s", median_of([](const Round& r) { return r.alone.tokens_per_second(); }),
            fmt::format("limit: the engine alone; {} rounds of {} requests, {} events", rounds.size(),
                        any.served.requests, any.served.events)});
    report({name("server's part of the time"),
            median_of([](const Round& r) { return 100 * (1 - r.alone.seconds / r.served.seconds); }),
            "%",
            {}});
    report({name("first token, median"), 1e3 * median_of([](const Round& r) { return r.served.first_token.p50; }), "ms",
            1e3 * median_of([](const Round& r) { return r.engine_first_token; })});
    report({name("server's part of the first token"),
            1e3 * median_of([](const Round& r) { return r.served.first_token.p50 - r.engine_first_token; }),
            "ms",
            {}});
    report(
        {name("first token, p99"), 1e3 * median_of([](const Round& r) { return r.served.first_token.p99; }), "ms", {}});
    const double added = 1e6 * median_of([](const Round& r) { return r.served_processor - r.alone_processor; });
    report({name("server's part of the processor time"),
            added / events,
            "us/event",
            {},
            fmt::format("{:.0f} us a request", added / static_cast<double>(any.served.requests))});
    report({name("processor time of server and engine"),
            1e6 / events * median_of([](const Round& r) { return r.served_processor; }),
            "us/event",
            {}});
    report({name("processor time of the client"),
            1e6 / events * median_of([](const Round& r) { return r.served.client_seconds; }),
            "us/event",
            {}});
  }

  const Options& options_;
  LoadedEngine& loaded_;
  EngineView& engine_view_;
  uint64_t salt_ = 0;
};

ExitCode run(const Options& given) {
  Options options = given;
  if (options.concurrency.empty()) options.concurrency = {64};
  for (const int64_t one : options.concurrency)
    if (one < 1 || one > 4096)
      return report_usage_error(fmt::format("--concurrency: {} is out of range, allowed: [1, 4096]", one));
  if (!options.engine.max_sequences)
    options.engine.max_sequences =
        static_cast<int32_t>(*std::max_element(options.concurrency.begin(), options.concurrency.end()));
  if (!options.engine.step_rows && *options.engine.max_sequences > EngineOptions().step_rows)
    options.engine.step_rows = *options.engine.max_sequences;
  const auto engine_view = std::make_shared<EngineView>();
  EngineOptions engine;
  engine.observers = {engine_view};
  if (options.null_model)
    engine.make_model = [](const StepLimits& limits, Ops& ops) {
      return bench::NullModel::create({.vocabulary = 4096, .max_context = 65536}, limits, ops);
    };
  Result<LoadedEngine> loaded = open_engine(options.engine, std::move(engine));
  if (!loaded.ok()) return report_error(loaded.status());
  BenchReport report(options.json, bench::hardware_text(loaded->engine->backend_name()));
  const auto compare_all = [&]() -> Status {
    Comparison comparison(options, *loaded, *engine_view);
    for (const int64_t concurrency : options.concurrency) DI_RETURN_IF_ERROR(comparison.run(concurrency, report));
    return loaded->close();
  };
  return report.finish(compare_all());
}

}  // namespace

void add_bench_serve_command(CLI::App& bench, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App& command =
      *bench.add_subcommand("serve", "What the server adds to the engine: first token, throughput, processor");
  command.footer(kExamples);
  command
      .add_option("--concurrency", options->concurrency,
                  "requests at a time, several separated by commas (default: 64)")
      ->delimiter(',')
      ->type_name("N");
  add_number<int32_t>(command, "--rounds", options->rounds, {.lowest = 1, .highest = 1000},
                      "turns of the engine and of the server (default: 5)");
  command.add_flag("--null-model", options->null_model, "a model that computes nothing, with the tokenizer of --model");
  command.add_flag("--json", options->json, "print one JSON object a result");
  add_workload_options(command, options->workload);
  add_engine_options(command, options->engine);
  command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace deepinfer::cli
