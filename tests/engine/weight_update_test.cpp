// Other weights for an engine at work: answers are those of an engine that was opened with them, old prefixes are
// forgotten in the pool and unknown in the tier, and a folder that does not fit changes nothing.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "engine/tiers/memory_kv_store.h"
#include "models/synthetic_model.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

const OpsBackend kCpu{"cpu", [] { return make_cpu_path(machine_paths().back(), 1); }};

class WeightUpdateTest : public testing::Test {
 protected:
  WeightUpdateTest() {
    write_synthetic_model(first, synthetic_config(nlohmann::json::object()), 11);
    write_synthetic_model(second, synthetic_config(nlohmann::json::object()), 12);
  }

  static EngineOptions options(const TemporaryFolder& model) {
    EngineOptions options;
    options.model = model.path();
    options.max_context = 1024;
    options.cache_bytes = 32 << 20;
    options.max_sequences = 4;
    options.draft_schedule = DraftSchedule::kAll;
    return options;
  }
  static EngineRequest request(int64_t prompt_tokens, int64_t tokens) {
    EngineRequest request;
    for (int64_t i = 0; i < prompt_tokens; ++i)
      request.prompt.push_back(static_cast<int32_t>(3 + (i * 7 + i / 5) % 50));
    request.params = greedy_params(tokens, -1);
    request.params.stop_tokens.clear();
    return request;
  }
  static std::vector<GeneratedToken> answer(const TemporaryFolder& model, const EngineRequest& request) {
    EngineRun fresh(kCpu, options(model));
    const RequestId id = fresh.submit(request).value();
    fresh.drain();
    return fresh.seen(id).tokens;
  }
  static void wait_for_tokens(const EngineRun& run, RequestId id, int64_t tokens) {
    while (run.tokens_seen(id) < tokens) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static WeightUpdate to(const TemporaryFolder& folder, PauseMode mode = PauseMode::kDrain) {
    return {.folder = folder.path(), .mode = mode};
  }

  TemporaryFolder first, second;
};

TEST_F(WeightUpdateTest, AnswersAreThoseOfTheNewWeights) {
  EngineRun run(kCpu, options(first));
  const RequestId before = run.submit(request(300, 8)).value();
  ASSERT_TRUE(run.engine().update_weights(to(second)).ok());
  EXPECT_EQ(run.engine().stats().weights_version, 1);
  EXPECT_EQ(run.engine().stats().state, EngineState::kRunning);
  const RequestId after = run.submit(request(300, 8)).value();
  run.drain();
  expect_same_tokens(run.seen(before).tokens, answer(first, request(300, 8)), "old weights");
  expect_same_tokens(run.seen(after).tokens, answer(second, request(300, 8)), "new weights");
  EXPECT_EQ(run.seen(before).ends.at(0).weights_version, 0);
  EXPECT_EQ(run.seen(after).ends.at(0).weights_version, 1);
  EXPECT_EQ(run.seen(after).ends.at(0).cached_tokens, 0) << "records of the old weights are none of the new ones";

  ASSERT_TRUE(run.engine().update_weights(to(first)).ok());
  const RequestId back = run.submit(request(300, 8)).value();
  run.drain();
  expect_same_tokens(run.seen(back).tokens, answer(first, request(300, 8)), "the first again");
  EXPECT_EQ(run.seen(back).ends.at(0).weights_version, 2);
}

TEST_F(WeightUpdateTest, KeptRequestsGoOnAsIfTheNewWeightsHadReadAllTheirTokens) {
  EngineRun run(kCpu, options(first));
  const EngineRequest asked = request(200, 150);
  const RequestId id = run.submit(asked).value();
  wait_for_tokens(run, id, 20);
  ASSERT_TRUE(run.engine().pause(PauseMode::kKeep).ok());
  const auto of_old = static_cast<size_t>(run.tokens_seen(id));
  ASSERT_TRUE(run.engine().update_weights(to(second, PauseMode::kKeep)).ok());
  ASSERT_TRUE(run.engine().resume().ok());
  run.drain();
  const SeenRequest& seen = run.seen(id);
  ASSERT_LT(of_old, seen.tokens.size()) << "the update came too late for this test";

  for (size_t i = 0; i < seen.versions.size(); ++i) EXPECT_EQ(seen.versions[i] > 0, i >= of_old) << "token " << i;
  const std::vector<GeneratedToken> old = answer(first, asked);
  EngineRequest forced = asked;
  for (size_t i = 0; i < of_old; ++i) forced.forced_tokens.push_back(seen.tokens[i].token);
  const std::vector<GeneratedToken> fresh = answer(second, forced);
  std::vector<GeneratedToken> want(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(of_old));
  want.insert(want.end(), fresh.begin() + static_cast<std::ptrdiff_t>(of_old), fresh.end());
  expect_same_tokens(seen.tokens, want, "old tokens, then what the new weights make of them");
  EXPECT_GT(seen.ends.at(0).recomputed_tokens, 0);
}

TEST_F(WeightUpdateTest, KeptRecordsAreNotComputedAgainAndNotShared) {
  EngineRun run(kCpu, options(first));
  const RequestId id = run.submit(request(200, 120)).value();
  wait_for_tokens(run, id, 20);
  ASSERT_TRUE(run.engine().pause(PauseMode::kKeep).ok());
  WeightUpdate update = to(second, PauseMode::kKeep);
  update.keep_records = true;
  ASSERT_TRUE(run.engine().update_weights(update).ok());
  ASSERT_TRUE(run.engine().resume().ok());
  run.drain();
  EXPECT_EQ(run.seen(id).tokens.size(), 120U);
  EXPECT_EQ(run.seen(id).ends.at(0).recomputed_tokens, 0);
  const RequestId next = run.submit(request(200, 8)).value();
  run.drain();
  EXPECT_EQ(run.seen(next).ends.at(0).cached_tokens, 0);
  expect_same_tokens(run.seen(next).tokens, answer(second, request(200, 8)), "the next request");

  update.mode = PauseMode::kDrain;
  EXPECT_NE(run.engine().update_weights(update).message().find("keep_records"), std::string::npos);
}

TEST_F(WeightUpdateTest, APausedOrSleepingEngineStaysSo) {
  EngineRun run(kCpu, options(first));
  ASSERT_TRUE(run.engine().pause(PauseMode::kKeep).ok());
  const RequestId waiting = run.submit(request(150, 6)).value();
  ASSERT_TRUE(run.engine().update_weights(to(second)).ok()) << "what has not begun need not be drained";
  EXPECT_EQ(run.engine().stats().state, EngineState::kPaused);
  ASSERT_TRUE(run.engine().sleep(PauseMode::kKeep).ok());
  ASSERT_TRUE(run.engine().update_weights(to(first)).ok());
  ASSERT_TRUE(run.engine().update_weights(to(second)).ok());
  EXPECT_EQ(run.engine().stats().state, EngineState::kAsleep);
  ASSERT_TRUE(run.engine().wake_up().ok());
  ASSERT_TRUE(run.engine().resume().ok());
  run.drain();
  expect_same_tokens(run.seen(waiting).tokens, answer(second, request(150, 6)), "who waited");
  EXPECT_EQ(run.seen(waiting).ends.at(0).weights_version, 3);
}

TEST_F(WeightUpdateTest, AFolderThatDoesNotFitChangesNothing) {
  EngineRun run(kCpu, options(first));
  const auto refused = [&](const TemporaryFolder& folder, const std::string& part) {
    const Status status = run.engine().update_weights(to(folder));
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    EXPECT_EQ(run.engine().stats().weights_version, 0);
    EXPECT_EQ(run.engine().stats().state, EngineState::kRunning);
  };
  TemporaryFolder other;
  write_synthetic_model(other, synthetic_config({{"num_experts_per_tok", 1}}), 13);
  refused(other, "num_experts_per_tok is 1; allowed: ");
  write_synthetic_model(other, synthetic_config({{"rope_theta", 20000.0}}), 13);
  refused(other, "rope_theta is 20000; allowed: 10000, as in the loaded model");

  // The configuration fits and a tensor does not.
  TemporaryFolder thin;
  write_synthetic_model(thin, synthetic_config({{"moe_intermediate_size", 64}}), 14);
  fs::copy_file(first / "config.json", thin / "config.json", fs::copy_options::overwrite_existing);
  refused(thin, "layers.0.ffn.");

  TemporaryFolder empty;
  EXPECT_EQ(run.engine().update_weights(to(empty)).code(), StatusCode::kNotFound);

  TemporaryFolder spelled;
  write_synthetic_model(spelled, synthetic_config(nlohmann::json::object()), 12);
  std::ofstream(spelled / "tokenizer.json") << "{}";
  refused(spelled, "tokenizer.json");

  const RequestId id = run.submit(request(150, 6)).value();
  run.drain();
  expect_same_tokens(run.seen(id).tokens, answer(first, request(150, 6)), "the old weights go on");
}

// What the tier keeps belongs to the weights it was made with.
TEST_F(WeightUpdateTest, TheTierKnowsRecordsByTheirWeights) {
  std::map<std::string, int> opened;
  bool broken = false;
  EngineOptions with_tier = options(first);
  with_tier.kv_store = [&](const std::string& identity) -> Result<std::unique_ptr<KvStore>> {
    if (broken) return io_error("no store today");
    ++opened[identity];
    return std::unique_ptr<KvStore>(std::make_unique<MemoryKvStore>(int64_t{64} << 20));
  };
  EngineRun run(kCpu, with_tier);
  const auto ask = [&] {
    const RequestId id = run.submit(request(300, 8)).value();
    run.drain();
    return run.seen(id).tokens;
  };
  expect_same_tokens(ask(), answer(first, request(300, 8)), "first");
  ASSERT_TRUE(run.engine().update_weights(to(second)).ok());
  expect_same_tokens(ask(), answer(second, request(300, 8)), "second");
  ASSERT_TRUE(run.engine().update_weights(to(first)).ok());
  expect_same_tokens(ask(), answer(first, request(300, 8)), "first again");
  ASSERT_EQ(opened.size(), 2U);
  EXPECT_EQ(opened.begin()->second + std::next(opened.begin())->second, 3);

  broken = true;
  EXPECT_FALSE(run.engine().update_weights(to(second)).ok());
  EXPECT_EQ(run.engine().stats().weights_version, 2);
  expect_same_tokens(ask(), answer(first, request(300, 8)), "still the first");
}

}  // namespace
}  // namespace deepinfer
