// Prompts of one priority take turns: nobody's first token waits for a long prompt of another, and no prompt waits for
// ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "scheduling/scripted_engine.h"
#include "scheduling/sequence.h"

namespace deepinfer::testing {
namespace {

constexpr int64_t kLong = 100'000;

SchedulerConfig large_config() {
  SchedulerConfig config;
  config.cache = {.blocks = 4000,
                  .tokens_per_block = 128,
                  .full_snapshot_blocks = 2,
                  .early_snapshot_blocks = 1,
                  .early_interval = 4096,
                  .state_slots = 40};
  config.max_context = 120'000;
  config.step_rows = 512;
  config.max_sequences = 36;
  return config;
}

// Steps until a request of one token has it.
int64_t steps_to_first_token(ScriptedEngine& engine, RequestId id) {
  int64_t steps = 0;
  for (; !engine.has_ended(id) && steps < 10'000; ++steps) engine.step();
  return steps;
}

TEST(Fairness, AShortPromptDoesNotWaitForALongOne) {
  for (const int64_t long_prompts : {1, 3, 20}) {  // the rest of them wait
    ScriptedEngine engine(large_config());
    RequestId id = 0;
    for (int64_t i = 0; i < long_prompts; ++i) ASSERT_TRUE(engine.submit(engine.request(++id, kLong, 1)).ok());
    engine.run(10);
    for (const int64_t tokens : {1, 100, 384}) {
      ASSERT_TRUE(engine.submit(engine.request(++id, tokens, 1)).ok());
      EXPECT_LE(steps_to_first_token(engine, id), 2) << tokens << " tokens behind " << long_prompts;
      EXPECT_EQ(engine.scheduler().stats().ended, id - static_cast<RequestId>(long_prompts));
    }
    // Together they are more than a step takes.
    const RequestId first = id + 1;
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(engine.submit(engine.request(++id, 200, 1)).ok());
    for (RequestId each = first; each <= id; ++each) steps_to_first_token(engine, each);
    EXPECT_EQ(engine.scheduler().stats().ended, id - static_cast<RequestId>(long_prompts));
    for (RequestId each = 1; each <= id; ++each) engine.cancel(each);
    engine.run_to_the_end();
  }
}

TEST(Fairness, AShortPromptBesideStreamsAndALongOneWaitsForItsOwnRowsOnly) {
  SchedulerConfig config = large_config();
  config.decode_latency = Time(10'000'000);  // 900 rows of the executor's time are 10 ms
  ScriptedEngine engine(config);
  for (RequestId id = 1; id <= 8; ++id) ASSERT_TRUE(engine.submit(engine.request(id, 40, 4000)).ok());
  engine.run(20);
  ASSERT_TRUE(engine.submit(engine.request(9, kLong, 1)).ok());
  engine.run(20);
  ASSERT_TRUE(engine.submit(engine.request(10, 300, 1)).ok());
  EXPECT_LE(steps_to_first_token(engine, 10), 3);
  EXPECT_FALSE(engine.has_ended(9));
  for (RequestId id = 1; id <= 9; ++id) engine.cancel(id);
  engine.run_to_the_end();
}

TEST(Fairness, ALongPromptKeepsItsShareWhateverComes) {
  ScriptedEngine engine(large_config());
  constexpr int64_t kTokens = 20'000;
  ASSERT_TRUE(engine.submit(engine.request(1, kTokens, 1)).ok());
  RequestId id = 1;
  int64_t steps = 0;
  for (; !engine.has_ended(1); ++steps) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine.submit(engine.request(++id, 200, 1)).ok());  // 800 rows a step
    engine.step();
  }
  EXPECT_LE(steps, kTokens / (512 / 4) + 5);
  EXPECT_GE(steps, kTokens / 512);
  engine.run_to_the_end();
}

TEST(Fairness, ALongPromptThatWaitsIsAdmittedWhenItIsTheOldest) {
  ScriptedEngine engine(large_config());
  ASSERT_TRUE(engine.submit(engine.request(1, 5'000, 1)).ok());
  ASSERT_TRUE(engine.submit(engine.request(2, 5'000, 1)).ok());
  RequestId id = 2;
  int64_t steps = 0;
  for (; !engine.has_ended(2); ++steps) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine.submit(engine.request(++id, 200, 1)).ok());
    engine.step();
  }
  EXPECT_LE(steps, 2 * 5'000 / (512 / 4) + 10);
  engine.run_to_the_end();
}

TEST(Fairness, EqualPromptsGoOneAfterTheOther) {
  for (const int64_t tokens : {100, 700, 3000}) {
    ScriptedEngine engine(large_config());
    for (RequestId id = 1; id <= 12; ++id) ASSERT_TRUE(engine.submit(engine.request(id, tokens, 1)).ok());
    engine.run_to_the_end();
    EXPECT_TRUE(std::is_sorted(engine.admitted.begin(), engine.admitted.end()));
    RequestId last = 0;
    for (const StepPlan& plan : engine.plans)
      for (const PrefillChunk& chunk : plan.prefills) {
        EXPECT_GE(chunk.request, last) << "rows go to the first until it is done";
        last = chunk.request;
      }
  }
}

TEST(Fairness, AContinuedConversationIsAsLongAsWhatIsNotCached) {
  ScriptedEngine engine(large_config());
  ASSERT_TRUE(engine.submit(engine.request(1, 30'000, 1)).ok());
  engine.run_to_the_end();
  ASSERT_TRUE(engine.submit(engine.request(2, 31'000, 1)).ok());
  engine.run(5);
  Request next = engine.request(1, 30'000, 1);  // the first once more, and a little
  next.id = 3;
  next.prompt.insert(next.prompt.end(), 50, 7);
  ASSERT_TRUE(engine.submit(next).ok());
  EXPECT_LE(steps_to_first_token(engine, 3), 2);
  EXPECT_FALSE(engine.has_ended(2));
  engine.run_to_the_end();
}

TEST(Fairness, APriorityGoesBeforeAnySize) {
  ScriptedEngine engine(large_config());
  Request important = engine.request(1, 20'000, 1);
  important.priority = 1;
  ASSERT_TRUE(engine.submit(important).ok());
  engine.run(2);
  ASSERT_TRUE(engine.submit(engine.request(2, 10, 1)).ok());
  engine.run_until_ended(2);
  EXPECT_TRUE(engine.has_ended(1));
  engine.run_to_the_end();
}

// Random prompts at random times, most of them short.  Whoever is of a smaller class or earlier may be before a prompt,
// and the oldest has its quarter; nothing else may hold it up.
TEST(Fairness, NobodyWaitsForMoreThanThoseBeforeIt) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto between = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    SchedulerConfig config = large_config();
    config.step_rows = between(40, 300);
    config.plans_in_flight = static_cast<int>(between(1, 3));
    ScriptedEngine engine(config);
    struct Came {
      int64_t step = 0, rows = 0;
    };
    std::map<RequestId, Came> came;
    std::map<RequestId, int64_t> ended;
    const int64_t requests = between(5, 30);
    RequestId id = 0;
    for (int64_t step = 0; static_cast<int64_t>(ended.size()) < requests; ++step) {
      ASSERT_LT(step, 100'000);
      while (static_cast<int64_t>(id) < requests && random() % 4 == 0) {
        const int64_t rows = random() % 4 == 0 ? between(1, 10'000) : between(1, 300);
        ASSERT_TRUE(engine.submit(engine.request(++id, rows, 1)).ok());
        came[id] = {step, rows};
      }
      if (!engine.scheduler().idle()) engine.step();
      for (const auto& [of, end] : engine.ended) ended.emplace(of, step);
    }
    for (const auto& [of, mine] : came) {
      // Of a smaller or the same class when they came, or submitted before and not done yet.
      int64_t smaller = mine.rows, earlier = mine.rows, others = 0;
      for (const auto& [other, its] : came) {
        if (other == of || its.step > ended[of] || ended[other] < mine.step) continue;
        if (size_class(its.rows, config.step_rows) <= size_class(mine.rows, config.step_rows)) smaller += its.rows;
        if (other < of) earlier += its.rows;
        ++others;
      }
      // Chunks end at snapshots: a step may leave some rows unused, at most once for every prompt and 4,096 tokens.
      const int64_t slack = config.plans_in_flight + 2 + others + (smaller + earlier) / 4096;
      const int64_t waited = ended[of] - mine.step;
      EXPECT_LE(waited, 4 * earlier / config.step_rows + slack) << "request " << of << " of " << mine.rows << " rows";
      if (size_class(mine.rows, config.step_rows) == 0) {
        // Others that are smaller by then were longer before: they are no longer than that when they come.
        int64_t short_rows = 0;
        for (const auto& [other, its] : came)
          if (its.step <= ended[of] && ended[other] >= mine.step) short_rows += std::min(its.rows, config.step_rows);
        EXPECT_LE(waited, 4 * short_rows / (3 * config.step_rows) + slack) << "request " << of;
      }
    }
  }
}

}  // namespace
}  // namespace deepinfer::testing
