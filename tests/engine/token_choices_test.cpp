// Reported experts and cached rows against those that the operations of a plain pass over the same tokens chose, and
// against the recorded passes; in company, in small chunks, with drafts, preempted and moved off the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"
#include "models/model_run.h"
#include "ops/watched_ops.h"

namespace deepinfer {
namespace {

const OpsBackend kCpu{"cpu", [] { return make_cpu_path(machine_paths().back(), 1); }};
constexpr int64_t kChunk = 512;

// What every token of a plain pass chose: all rows through all layers, one sequence, nothing cached.
class PlainPass {
 public:
  explicit PlainPass(const OpsBackend& backend)
      : loaded_({backend.name, [&] { return std::make_unique<WatchedOps>(backend.make()); }},
                {.rows = kChunk, .sequences = 1, .logit_rows = kChunk}),
        watched_(static_cast<WatchedOps&>(loaded_.ops())) {}

  TokenChoices choices(const std::vector<int32_t>& tokens) {
    watched_.routes.clear();
    watched_.selections.clear();
    SequenceRun run(loaded_);
    run.run(tokens, kChunk, static_cast<int64_t>(tokens.size()));
    TokenChoices all;
    all.tokens = static_cast<int64_t>(tokens.size());
    const ChoiceCounts& counts = loaded_.model().info().choices;
    const auto collect = [&](const std::vector<WatchedOps::Rows>& calls, int64_t layers, auto& out) {
      ASSERT_EQ(calls.size() % static_cast<size_t>(layers), 0U);
      for (size_t chunk = 0; chunk < calls.size(); chunk += static_cast<size_t>(layers)) {
        for (size_t row = 0; row < calls[chunk].size(); ++row) {
          for (size_t layer = 0; layer < static_cast<size_t>(layers); ++layer) {
            const std::vector<int32_t>& chosen = calls[chunk + layer].at(row);
            out.insert(out.end(), chosen.begin(), chosen.end());
          }
        }
      }
    };
    collect(watched_.routes, counts.routers, all.experts);
    collect(watched_.selections, counts.indexers, all.selected);
    return all;
  }

 private:
  LoadedModel loaded_;
  WatchedOps& watched_;
};

EngineRequest reporting(std::vector<int32_t> prompt, int64_t tokens, int drafts) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.params = greedy_params(tokens, drafts);
  request.params.stop_tokens.clear();
  request.capture_routed_experts = request.capture_selected_indices = true;
  return request;
}

void expect_plain_choices(PlainPass& plain, const EngineRequest& request, const SeenRequest& seen,
                          const std::string& what) {
  ASSERT_EQ(seen.ends.size(), 1U) << what;
  EXPECT_EQ(seen.ends.front().cached_tokens, 0) << what;
  std::vector<int32_t> tokens = request.prompt;
  for (const GeneratedToken& token : seen.tokens) tokens.push_back(token.token);
  tokens.pop_back();  // the last one was drawn and not processed
  const TokenChoices want = plain.choices(tokens);
  ASSERT_EQ(seen.choices.tokens, want.tokens) << what;
  EXPECT_EQ(seen.choices.experts, request.capture_routed_experts ? want.experts : std::vector<uint16_t>()) << what;
  EXPECT_EQ(seen.choices.selected, request.capture_selected_indices ? want.selected : std::vector<int32_t>()) << what;
}

EngineOptions small_engine() {
  EngineOptions options;
  options.max_context = 2048;
  options.draft_schedule = DraftSchedule::kAll;
  return options;
}

TEST(TokenChoices, OfTheReferenceAreThoseOfAPlainPass) {
  const OpsBackend reference{"reference", make_reference_ops};
  PlainPass plain(reference);
  EngineRun run(reference, small_engine());
  std::vector<std::pair<RequestId, EngineRequest>> asked;
  for (const GreedyGolden& golden : greedy_goldens()) {
    if (golden.ids.size() > 40 || asked.size() == 2) continue;
    const EngineRequest request = reporting(golden.ids, 4, static_cast<int>(asked.size()) * 2);
    asked.emplace_back(run.submit(request).value(), request);
  }
  ASSERT_GE(asked.size(), 2U);
  run.drain();
  for (const auto& [id, request] : asked) expect_plain_choices(plain, request, run.seen(id), std::to_string(id));
}

TEST(TokenChoices, DoNotDependOnCompanyChunksDraftsOrPreemption) {
  PlainPass plain(kCpu);
  for (const int64_t cache : {int64_t{2048 * 534}, int64_t{64} << 20}) {  // the first holds hardly one of them
    EngineOptions options = small_engine();
    options.cache_bytes = cache;
    options.max_sequences = 4;
    options.step_rows = 60;
    EngineRun run(kCpu, options);
    const std::vector<int32_t> text = ForwardGolden("recall").ids();
    std::vector<std::pair<RequestId, EngineRequest>> asked;
    for (int i = 0; i < 6; ++i) {
      EngineRequest request =
          reporting({text.begin(), text.begin() + (i == 0 ? 700 : 150 + 60 * i)}, 30 + 10 * i, i % 6);
      request.capture_routed_experts = i != 4;
      request.capture_selected_indices = i != 5;
      asked.emplace_back(run.submit(request).value(), request);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (i == 3) {
        ASSERT_TRUE(run.engine().sleep(PauseMode::kKeep).ok());
        ASSERT_TRUE(run.engine().wake_up().ok());
      }
    }
    run.drain();
    for (const auto& [id, request] : asked)
      expect_plain_choices(plain, request, run.seen(id), std::to_string(cache) + ", request " + std::to_string(id));
  }
}

TEST(TokenChoices, SelectedRowsAreThoseOfTheRecordedPasses) {
  EngineRun run(kCpu, small_engine());
  for (const char* name : {"json", "multilingual", "tool_call"}) {
    const ForwardGolden golden(name);
    const std::vector<int32_t> ids = golden.ids();
    const RequestId id = run.submit(reporting(ids, 1, 0)).value();
    run.drain();
    const TokenChoices& choices = run.seen(id).choices;
    ASSERT_EQ(choices.tokens, static_cast<int64_t>(ids.size()));
    const size_t of_token = choices.selected.size() / ids.size();
    const size_t of_layer = of_token / 3;  // layers 2, 4 and 6 choose rows
    for (size_t indexer = 0; indexer < 3; ++indexer) {
      const auto want = golden.get<int32_t>("selected." + std::to_string(2 * indexer + 2));
      const size_t columns = want.size() / 2;  // of the last two tokens
      for (size_t back = 0; back < 2; ++back) {
        const auto* got = choices.selected.data() + (ids.size() - 2 + back) * of_token + indexer * of_layer;
        std::vector<int32_t> sorted(want.begin() + static_cast<std::ptrdiff_t>(back * columns),
                                    want.begin() + static_cast<std::ptrdiff_t>((back + 1) * columns));
        std::erase(sorted, -1);
        std::sort(sorted.begin(), sorted.end());
        const std::vector<int32_t> mine(got, std::find(got, got + of_layer, -1));
        // Scores carry the rounding of the layers before: nearly all rows are the same.
        std::vector<int32_t> common;
        std::set_intersection(mine.begin(), mine.end(), sorted.begin(), sorted.end(), std::back_inserter(common));
        EXPECT_EQ(mine.size(), sorted.size()) << name;
        EXPECT_GE(common.size() * 100, sorted.size() * 90) << name << ", indexer " << indexer;
      }
    }
  }
}

TEST(TokenChoices, AreNotThereWhereRowsLeaveEarly) {
  EngineRun run(kCpu, small_engine());
  EngineRequest request = reporting({5, 6, 7}, 4, -1);
  request.prefix_replay = PrefixReplay::kBounded;
  const auto id = run.submit(request);
  ASSERT_FALSE(id.ok());
  EXPECT_NE(id.status().message().find("bounded prefix_replay"), std::string::npos) << id.status().message();
}

TEST(TokenChoices, NothingIsReportedUnlessAskedFor) {
  EngineRun run(kCpu, small_engine());
  EngineRequest request = reporting({5, 6, 7}, 4, -1);
  request.capture_routed_experts = request.capture_selected_indices = false;
  const RequestId id = run.submit(request).value();
  run.drain();
  EXPECT_EQ(run.seen(id).choices.tokens, 0);
}

}  // namespace
}  // namespace deepinfer
