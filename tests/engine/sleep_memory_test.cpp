// The memory of a sleeping engine's cache belongs to the system again, and comes back when requests need it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/synthetic_model.h"

namespace deepinfer {
namespace {

constexpr int64_t kCacheBytes = int64_t{16} << 20;

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

EngineRequest request(int32_t salt, int64_t prompt_tokens, int64_t tokens) {
  EngineRequest request;
  for (int64_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>(3 + (i * (salt + 1) + i / 5 + salt) % 400));
  request.params = greedy_params(tokens, -1);
  request.params.stop_tokens.clear();
  return request;
}

// Prompts that differ, for all blocks of the pool.
void fill_cache(EngineRun& run) {
  constexpr int64_t kPrompt = 900;
  const int64_t blocks = run.engine().stats().scheduler.total_blocks;
  for (int64_t tokens = 0, salt = 1; tokens < blocks * 128; tokens += kPrompt, ++salt)
    ASSERT_TRUE(run.submit(request(static_cast<int32_t>(salt), kPrompt, 2)).ok());
  run.drain();
}

TEST(SleepMemory, GoesBackAndComesAgain) {
  const TemporaryFolder folder;
  write_synthetic_model(folder, synthetic_config(nlohmann::json::object()), 11);
  EngineOptions options;
  options.model = folder.path();
  options.max_context = 1024;
  options.cache_bytes = kCacheBytes;
  options.max_sequences = 4;
  options.draft_schedule = DraftSchedule::kAll;
  EngineRun run({"cpu", [] { return make_cpu_path(machine_paths().back(), 1); }}, options);
  const EngineRequest asked = request(0, 400, 30);
  const RequestId before = run.submit(asked).value();
  run.drain();
  fill_cache(run);
  const int64_t full = resident_bytes();

  ASSERT_TRUE(run.engine().sleep(PauseMode::kKeep).ok());
  const int64_t asleep = resident_bytes();
  EXPECT_LT(asleep, full - kCacheBytes * 9 / 10);

  ASSERT_TRUE(run.engine().wake_up().ok());
  const RequestId after = run.submit(asked).value();
  run.drain();
  EXPECT_EQ(run.seen(after).ends.at(0).cached_tokens, 0);
  expect_same_tokens(run.seen(after).tokens, run.seen(before).tokens, "after the sleep");
  const int64_t awake = resident_bytes();
  EXPECT_LT(awake, asleep + kCacheBytes * 3 / 4) << "only what is used, in huge pages";

  fill_cache(run);
  const int64_t full_again = resident_bytes();
  EXPECT_LT(full_again, full + kCacheBytes / 10) << "no second cache";
  EXPECT_GT(full_again, asleep + kCacheBytes * 9 / 10);
  std::printf("resident MB: %.1f full, %.1f asleep, %.1f awake, %.1f full again\n", static_cast<double>(full) / 1e6,
              static_cast<double>(asleep) / 1e6, static_cast<double>(awake) / 1e6,
              static_cast<double>(full_again) / 1e6);
}

}  // namespace
}  // namespace deepinfer
