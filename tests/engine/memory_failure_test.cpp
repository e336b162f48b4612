// Any allocation, or many in a row, or all from some moment on, may fail while an engine works, on whatever thread: the
// process goes on, every accepted request ends exactly once, complete answers are right and others are their
// beginnings.
#include <gtest/gtest.h>

#include <array>

#include "backends/cpu_backends.h"
#include "base/allocation_count.h"
#include "bench/null_model.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "engine/metrics/engine_metrics.h"
#include "models/synthetic_model.h"

namespace deepinfer {
namespace {

// What a callback was told; it takes no memory.
struct Told {
  std::array<int32_t, 64> tokens{};
  size_t count = 0;
  int ends = 0;
  EndReason reason = EndReason::kStop;
  StatusCode code = StatusCode::kOk;

  void take(const RequestUpdate& update) {
    for (const GeneratedToken& token : update.tokens) tokens.at(count++) = token.token;
    if (update.end == nullptr) return;
    ++ends;
    reason = update.end->reason;
    code = update.end->failure.code();
  }
};

struct Tally {
  int64_t attempts = 0, refused = 0, failed = 0, complete = 0, broken_engines = 0;
};

using Answers = std::vector<std::vector<int32_t>>;

// Answers with nothing failing.
Answers answers(const EngineOptions& options, const OpsBackend& backend, const std::vector<EngineRequest>& requests) {
  EngineRun run(backend, options);
  Answers answers;
  for (const EngineRequest& request : requests) {
    const RequestId id = run.submit(request).value();
    run.drain();
    std::vector<int32_t>& tokens = answers.emplace_back();
    for (const GeneratedToken& token : run.seen(id).tokens) tokens.push_back(token.token);
  }
  return answers;
}

// One engine, in which `count` allocations from the nth on fail.  False: it needed fewer than n.
bool attempt(const EngineOptions& options, const OpsBackend& backend, const std::vector<EngineRequest>& requests,
             const Answers& want, int64_t nth, int64_t count, Tally& tally) {
  SCOPED_TRACE("allocation " + std::to_string(nth) + " and on, " + std::to_string(count));
  const auto engine = Engine::open(options, backend.make()).value();
  std::vector<Told> told(requests.size());
  std::vector<EngineRequest> copies = requests;
  std::vector<RequestId> ids(requests.size(), 0);
  bool happened = false;
  {
    const FailedAllocation failed(nth, count);
    for (size_t i = 0; i < copies.size(); ++i) {
      const auto id = engine->submit(std::move(copies[i]), [to = &told[i]](const RequestUpdate& u) { to->take(u); });
      if (id.ok()) ids[i] = *id;
    }
    engine->drain();
    happened = failed.happened();
  }
  ++tally.attempts;
  for (size_t i = 0; i < told.size(); ++i) {
    const Told& t = told[i];
    if (ids[i] == 0) {
      ++tally.refused;
      EXPECT_EQ(t.ends, 0) << "request " << i << " was refused";
      continue;
    }
    EXPECT_EQ(t.ends, 1) << "request " << i;
    const auto got = std::vector<int32_t>(t.tokens.begin(), t.tokens.begin() + static_cast<std::ptrdiff_t>(t.count));
    if (t.reason == EndReason::kError) {
      ++tally.failed;
      EXPECT_EQ(t.code, StatusCode::kResourceExhausted);
      EXPECT_LE(got.size(), want[i].size());
      EXPECT_TRUE(std::equal(got.begin(), got.end(), want[i].begin())) << "request " << i;
    } else {
      ++tally.complete;
      EXPECT_EQ(got, want[i]) << "request " << i;
    }
  }
  // Afterwards the engine answers, or says that it has failed.
  Told next;
  const auto id = engine->submit(requests.front(), [&next](const RequestUpdate& u) { next.take(u); });
  if (id.ok()) {
    EXPECT_TRUE(engine->drain());
    EXPECT_EQ(next.ends, 1);
    EXPECT_EQ(next.reason, EndReason::kLength);
    EXPECT_EQ(next.count, want[0].size());
  } else {
    ++tally.broken_engines;
    EXPECT_EQ(engine->stats().state, EngineState::kFailed);
    EXPECT_EQ(engine->stats().failure.message(), id.status().message());
    EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted);
    EXPECT_FALSE(engine->pause(PauseMode::kKeep).ok());
  }
  return happened;
}

void sweep(const EngineOptions& options, const OpsBackend& backend, const std::vector<EngineRequest>& requests,
           int64_t dense, int64_t stride) {
  const Answers want = answers(options, backend, requests);
  for (const int64_t count : {int64_t{1}, int64_t{30}, int64_t{1} << 40}) {
    Tally tally;
    for (int64_t nth = 0; attempt(options, backend, requests, want, nth, count, tally);)
      nth += nth < dense && count == 1 ? 1 : 1 + nth / stride;
    std::printf("%ld in a row: %ld attempts; requests: %ld refused, %ld failed, %ld complete; %ld engines failed\n",
                count, tally.attempts, tally.refused, tally.failed, tally.complete, tally.broken_engines);
    EXPECT_GT(tally.complete, 0);
    EXPECT_GT(tally.failed, 0);
  }
}

const OpsBackend kCpu{"cpu", [] { return make_cpu_path(machine_paths().back(), 1); }};

// A model that needs no memory itself, with a pool that preempts, a tier below it, masks, penalties and an observer.
TEST(EngineOutOfMemory, AroundTheModel) {
  EngineOptions options;
  options.model = DEEPINFER_TEST_MODEL;  // for the identity of the tier's records
  options.make_model = [](const StepLimits& limits, Ops& ops) {
    return bench::NullModel::create({.vocabulary = 512, .max_context = 2048}, limits, ops);
  };
  options.cache_bytes = 8 * 512;
  options.kv_host_bytes = 64 << 10;
  options.max_sequences = 3;
  options.step_rows = 128;
  options.observers = {std::make_shared<EngineMetrics>()};
  std::vector<EngineRequest> requests;
  for (int r = 0; r < 6; ++r) {
    EngineRequest& request = requests.emplace_back();
    for (int i = 0; i < 100 + 80 * (r % 3); ++i) request.prompt.push_back(1 + (i + 100 * (r % 2)) % 400);
    request.params = greedy_params(20 + r, 0);
    request.params.stop_tokens.clear();
    request.params.logprobs = r % 3 - 1;
    if (r == 1) request.bad_words = {{5, 6}, {300}};
    if (r == 2) request.params.repetition_penalty = 1.0001F;
    if (r == 3) request.min_tokens = 4;
    if (r == 4) request.prompt_logprobs = 1;
    if (r == 5) request.timeout = std::chrono::hours(1);
  }
  sweep(options, kCpu, requests, 150, 60);
}

// The reference backend asks for memory inside its operations: steps are cut off half done.
TEST(EngineOutOfMemory, InsideTheModel) {
  const TemporaryFolder folder;
  write_synthetic_model(folder, synthetic_config(nlohmann::json::object()), 11);
  EngineOptions options;
  options.model = folder.path();
  options.max_context = 256;
  options.cache_bytes = 4 << 20;
  options.max_sequences = 2;
  options.draft_schedule = DraftSchedule::kAll;
  std::vector<EngineRequest> requests;
  for (int r = 0; r < 3; ++r) {
    EngineRequest& request = requests.emplace_back();
    request.prompt = {3, 40 + r, 22, 23, 5, 8};
    request.params = greedy_params(6, r == 1 ? 0 : 3);
    request.params.stop_tokens.clear();
    if (r == 2) {
      request.params.temperature = 1;
      request.params.speculative_sampling = SpeculativeSampling::kRejection;
    }
  }
  sweep(options, {"reference", make_reference_ops}, requests, 10, 4);
}

}  // namespace
}  // namespace deepinfer
