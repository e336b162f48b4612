#include "engine/company_suite.h"

#include <chrono>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>

#include "engine/engine_run.h"
#include "models/golden_prompts.h"
#include "tensor/temporary_folder.h"

namespace deepinfer {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}
// DEEPINFER_SEED replays one schedule; DEEPINFER_FIRST_SEED and DEEPINFER_SCHEDULES run others than the usual ones.
uint64_t first_seed() {
  return from_environment("DEEPINFER_SEED", from_environment("DEEPINFER_FIRST_SEED", 1));
}
uint64_t schedules(const CompanyCase& c) {
  if (std::getenv("DEEPINFER_SEED") != nullptr) return 1;
  return from_environment("DEEPINFER_SCHEDULES", static_cast<uint64_t>(c.schedules));
}

class Randomness {
 public:
  explicit Randomness(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  const T& one_of(const std::vector<T>& values) {
    return values[static_cast<size_t>(below(static_cast<int64_t>(values.size())))];
  }

 private:
  std::mt19937_64 random_;
};

// Prompts with common prefixes of many lengths, so that schedules hit the prefix cache.
std::vector<int32_t> random_prompt(Randomness& random) {
  static const std::vector<int32_t> text = ForwardGolden("recall").ids();
  static const std::vector<GreedyGolden> goldens = greedy_goldens();
  if (random.chance(40)) return random.one_of(goldens).ids;
  const int64_t length = random.chance(60) ? 1 + random.below(200) : 1 + random.below(random.chance(20) ? 1500 : 500);
  std::vector<int32_t> prompt(text.begin(), text.begin() + length);
  if (random.chance(50)) {
    const std::vector<int32_t>& tail = random.one_of(goldens).ids;
    prompt.insert(prompt.end(), tail.begin(), tail.end());
  }
  return prompt;
}

GenerationParams random_params(Randomness& random) {
  GenerationParams params;
  params.temperature = random.chance(50) ? 0.0F : 0.9F;
  params.seed = static_cast<uint64_t>(random.below(3));
  if (random.chance(30)) params.top_p = 0.9F;
  if (random.chance(20)) params.top_k = 20;
  if (random.chance(20)) params.repetition_penalty = 1.1F;
  if (random.chance(20)) params.frequency_penalty = 0.5F;
  params.max_tokens = 1 + random.below(random.chance(20) ? 200 : 30);
  if (random.chance(70)) params.stop_tokens = {1};
  params.draft_tokens = static_cast<int32_t>(random.below(7)) - 1;
  params.logprobs = static_cast<int32_t>(random.below(4)) - 1;
  params.raw_logprobs = random.chance(30);
  if (random.chance(30)) params.speculative_sampling = SpeculativeSampling::kRejection;
  return params;
}

struct Asked {
  EngineRequest request;
  RequestId id = 0;
  int64_t cancel_after = -1;  // tokens; -1: never
};

// Stops the engine between two steps and lets it go on, now or with a later call; the weights that it goes over to are
// those that it has.  Or lets it forget its prefixes, while it runs or is paused.
class Rests {
 public:
  Rests(Engine& engine, Randomness& random) : engine_(engine), random_(random) {}

  void some() {
    if (random_.chance(20)) forget();
    if (paused_) {
      if (random_.chance(50)) go_on();
      return;
    }
    if (random_.chance(70)) return;
    const PauseMode mode = random_.chance(80) ? PauseMode::kKeep : PauseMode::kDrain;
    switch (random_.below(4)) {
      case 0:
        done(engine_.pause(mode));
        paused_ = true;
        break;
      case 1:
        done(engine_.sleep(mode));
        done(engine_.wake_up());
        break;
      case 2:
        done(engine_.update_weights({.folder = DEEPINFER_TEST_MODEL, .mode = mode}));
        break;
      default:
        done(engine_.pause(mode));
        paused_ = true;
        done(engine_.sleep(PauseMode::kKeep));
        done(engine_.update_weights({.folder = DEEPINFER_TEST_MODEL, .mode = PauseMode::kKeep}));
        done(engine_.wake_up());
        break;
    }
  }
  void go_on() {
    if (paused_) done(engine_.resume());
    paused_ = false;
  }

 private:
  void forget() {
    const int64_t what = random_.below(3);
    done(engine_.forget_prefixes({.device = what != 0, .host = what != 1}));
  }
  static void done(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

  Engine& engine_;
  Randomness& random_;
  bool paused_ = false;
};

// Generators for both kinds of prefix_replay.
struct Solo {
  std::unique_ptr<Generator> exact, bounded;

  explicit Solo(const OpsBackend& backend) {
    GeneratorOptions options;
    options.max_context = 2048;
    exact = open_generator(backend, options);
    options.prefill = PrefillMode::kBoundedReplay;
    bounded = open_generator(backend, options);
  }
};

std::vector<std::vector<GeneratedToken>> solo_answers(Solo& solo, const std::vector<Asked>& asked) {
  std::vector<std::vector<GeneratedToken>> answers;
  for (const Asked& a : asked) {
    GenerationParams params = a.request.params;
    // Drafts never change an answer, unless they are a part of it.
    if (params.speculative_sampling == SpeculativeSampling::kExact) params.draft_tokens = 0;
    const bool bounded = a.request.prefix_replay == PrefixReplay::kBounded;
    answers.push_back(generate(bounded ? *solo.bounded : *solo.exact, a.request.prompt, params).tokens);
  }
  return answers;
}

void check_against_solo(EngineRun& run, std::vector<std::vector<GeneratedToken>> answers,
                        const std::vector<Asked>& asked, const std::string& what) {
  for (size_t i = 0; i < asked.size(); ++i) {
    const Asked& a = asked[i];
    const SeenRequest& seen = run.seen(a.id);
    ASSERT_EQ(seen.ends.size(), 1U) << what;
    const RequestSummary& end = seen.ends.front();
    ASSERT_TRUE(end.failure.ok()) << what << ": " << end.failure.message();
    const GenerationParams& params = a.request.params;
    const bool bounded = a.request.prefix_replay == PrefixReplay::kBounded;
    std::vector<GeneratedToken>& want = answers[i];
    EXPECT_EQ(end.marks.bounded_prefix, bounded && std::ssize(a.request.prompt) > kDefaultReplayTokens) << what;
    EXPECT_EQ(end.marks.rejection_sampled, params.speculative_sampling == SpeculativeSampling::kRejection &&
                                               params.draft_tokens != 0 && params.temperature > 0)
        << what;
    if (end.reason == EndReason::kCancelled) {
      ASSERT_GE(a.cancel_after, 0) << what;
      ASSERT_LE(seen.tokens.size(), want.size()) << what;
      want.resize(seen.tokens.size());
    }
    EXPECT_EQ(end.answer_tokens, static_cast<int64_t>(seen.tokens.size())) << what;
    if (a.request.capture_routed_experts || a.request.capture_selected_indices) {
      const int64_t computed = static_cast<int64_t>(a.request.prompt.size() + seen.tokens.size()) - 1;
      EXPECT_EQ(seen.choices.tokens, seen.tokens.empty() ? 0 : computed) << what;
    }
    expect_same_tokens(seen.tokens, want, what + ", request " + std::to_string(a.id));
  }
}

// Answers made alone are the same in every schedule, whatever is in the generator's cache: one generator serves all, on
// one thread, beside the engine.
TEST_P(Company, RandomSchedulesGiveEveryRequestItsSoloAnswer) {
  const CompanyCase& c = GetParam();
  Solo solo(c.solo);
  const TemporaryFolder step_costs;  // measured once for engines of a shape, not for each
  for (uint64_t i = 0; i < schedules(c); ++i) {
    const uint64_t seed = first_seed() + i;
    SCOPED_TRACE("DEEPINFER_SEED=" + std::to_string(seed));
    Randomness random(seed);
    EngineOptions options;
    options.max_context = 2048;
    options.max_sequences = 1 + static_cast<int>(random.below(6));
    options.step_rows = std::max<int64_t>(options.max_sequences, random.one_of<int64_t>({8, 33, 128, 512}));
    // From a cache that hardly holds one request (preemption, eviction) to one that holds them all.
    options.cache_bytes = 2048 * 534 + random.one_of<int64_t>({0, 1 << 20, 4 << 20, 64 << 20});
    options.prefix_cache = random.chance(80);
    options.early_snapshot_interval = 128 * (1 + random.below(6));
    options.draft_schedule = random.one_of<DraftSchedule>(
        {DraftSchedule::kAll, DraftSchedule::kCausal, DraftSchedule::kLagged, DraftSchedule::kFresh});
    options.step_cost_file =
        step_costs / (std::to_string(options.max_sequences) + "_" + std::to_string(options.step_rows));
    options.decode_latency = std::chrono::milliseconds(1 + random.below(50));
    if (options.prefix_cache && random.chance(40)) options.kv_host_bytes = random.one_of<int64_t>({1 << 20, 32 << 20});
    EngineRun run(c.backend, options);

    std::vector<Asked> asked;
    Rests rests(run.engine(), random);
    for (int r = 0; r < c.requests; ++r) {
      Asked a;
      a.request.prompt = random_prompt(random);
      a.request.params = random_params(random);
      a.request.priority = static_cast<int32_t>(random.below(3));
      a.request.cache_salt = static_cast<uint64_t>(random.below(2));
      a.request.use_prefix_cache = random.chance(90);
      if (random.chance(20)) a.request.prefix_replay = PrefixReplay::kBounded;
      const bool exact = a.request.prefix_replay == PrefixReplay::kExact;
      a.request.capture_routed_experts = exact && random.chance(15);
      a.request.capture_selected_indices = exact && random.chance(15);
      if (random.chance(15)) a.cancel_after = random.below(10);
      const auto id = run.submit(a.request);
      ASSERT_TRUE(id.ok()) << id.status().message();
      a.id = *id;
      asked.push_back(std::move(a));
      if (random.chance(30)) std::this_thread::sleep_for(std::chrono::milliseconds(random.below(20)));
      for (const Asked& b : asked) {
        if (b.cancel_after >= 0 && run.tokens_seen(b.id) >= b.cancel_after) run.engine().cancel(b.id);
      }
      rests.some();
    }
    rests.go_on();
    auto answers = std::async(std::launch::async, [&] { return solo_answers(solo, asked); });
    run.drain();
    check_against_solo(run, answers.get(), asked, "schedule " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

// The next turn of a conversation goes on from the previous answer's last block boundary.
TEST_P(Company, TheNextTurnHitsAtThePreviousAnswersEnd) {
  const CompanyCase& c = GetParam();
  EngineOptions options;
  options.max_context = 2048;
  EngineRun run(c.backend, options);
  EngineRequest first;
  const std::vector<int32_t> text = ForwardGolden("recall").ids();
  first.prompt.assign(text.begin(), text.begin() + 200);
  first.params = greedy_params(100, -1);
  first.params.stop_tokens.clear();
  const RequestId one = *run.submit(first);
  run.drain();

  EngineRequest second = first;
  for (const GeneratedToken& token : run.seen(one).tokens) second.prompt.push_back(token.token);
  second.prompt.insert(second.prompt.end(), {5, 6, 7});
  const RequestId two = *run.submit(second);
  run.drain();
  EXPECT_EQ(run.seen(two).ends.at(0).cached_tokens, 256);

  const auto solo = open_generator(c.backend);
  expect_same_tokens(run.seen(two).tokens, generate(*solo, second.prompt, second.params).tokens, "second turn");
}

}  // namespace
}  // namespace deepinfer
