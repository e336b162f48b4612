// Preempted requests go on from what the tier below the pool has kept of them: in host memory, on disk, or both.  Pools
// are so small that requests take each other's blocks, and answers are those of a generator that has no cache at all,
// bit for bit.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <new>
#include <random>
#include <thread>

#include "engine/tiers/memory_kv_store.h"
#include "engine/tiers/solo_answers.h"
#include "engine/tiers/store_folder.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

struct Swaps {
  int64_t preemptions = 0, swapped = 0, recomputed = 0;
};

class EngineSwap : public SoloAnswers {
 protected:
  static EngineOptions small_pool() {
    EngineOptions options;
    options.max_context = 2048;
    options.cache_bytes = 92 * 128 * 534;
    options.max_sequences = 10;
    options.early_snapshot_interval = 4096;
    options.kv_tier_patience = std::chrono::minutes(10);  // whatever else the machine does
    options.decode_latency = std::chrono::minutes(10);
    options.draft_schedule = DraftSchedule::kAll;
    return options;
  }

  // Requests that fill the pool with their prompts and then want three blocks more each.
  static Swaps run(const EngineOptions& options, uint64_t seed, const std::string& what) {
    static const std::vector<int32_t> text = ForwardGolden("recall").ids();
    std::mt19937_64 random(seed);
    EngineRun engine(kBackend, options);
    std::vector<std::pair<RequestId, EngineRequest>> asked;
    for (int i = 0; i < 10; ++i) {
      EngineRequest r;
      r.prompt.assign(1, static_cast<int32_t>(5 + i));  // nothing is shared
      r.prompt.insert(r.prompt.end(), text.begin(), text.begin() + 850 + static_cast<int64_t>(random() % 150));
      r.params = greedy_params(390, -1);
      r.params.stop_tokens.clear();
      r.params.temperature = random() % 2 == 0 ? 0.0F : 0.9F;
      r.params.seed = random() % 3;
      r.params.draft_tokens = static_cast<int32_t>(random() % 2);
      r.params.logprobs = 1;
      asked.emplace_back(*engine.submit(r), r);
    }
    engine.drain();
    Swaps swaps;
    int compared = 0;
    for (const auto& [id, r] : asked) {
      const RequestSummary& end = engine.seen(id).ends.at(0);
      EXPECT_TRUE(end.failure.ok()) << end.failure.message();
      EXPECT_EQ(end.answer_tokens, 390);
      swaps.swapped += end.swapped_tokens;
      swaps.recomputed += end.recomputed_tokens;
      // Answers of requests that lost nothing are other tests' business.
      if (end.swapped_tokens + end.recomputed_tokens == 0 || ++compared > 3) continue;
      expect_solo_answer(engine, id, r, what + ", request " + std::to_string(id));
    }
    const SchedulerStats stats = engine.engine().stats().scheduler;
    EXPECT_EQ(stats.swapped_tokens, swaps.swapped);
    EXPECT_EQ(stats.recomputed_tokens, swaps.recomputed);
    const PrefixTierStats tier = engine.engine().stats().tier;
    swaps.preemptions = stats.preemptions;
    std::cout << what << ": " << swaps.preemptions << " preemptions, " << swaps.swapped << " tokens swapped, "
              << swaps.recomputed << " recomputed; tier: " << tier.questions << " questions, " << tier.hits << " hits, "
              << tier.dropped << " dropped\n";
    return swaps;
  }

  // Who is preempted when, and who takes the blocks of whom, depends on how fast this machine is; so up to six runs.
  static int64_t run_until_swapped(const EngineOptions& options, uint64_t seed, const std::string& what) {
    for (uint64_t more = 0; more < 6; ++more) {
      const int64_t swapped = run(options, seed + 10 * more, what).swapped;
      if (swapped > 0 || HasFailure()) return swapped;
    }
    return 0;
  }
};

TEST_F(EngineSwap, FromHostMemory) {
  EngineOptions options = small_pool();
  options.kv_host_bytes = 64 << 20;
  EXPECT_GT(run_until_swapped(options, 1, "host memory"), 0);
}

TEST_F(EngineSwap, FromDiskBelowHostMemoryThatHoldsAPart) {
  const StoreFolder folder;
  EngineOptions options = small_pool();
  options.kv_disk_folder = folder.path();
  options.kv_disk_bytes = 64 << 20;
  options.kv_host_bytes = 2 << 20;
  EXPECT_GT(run_until_swapped(options, 2, "host memory over disk"), 0);
}

// Slow, failing, forgetful, confusing and refusing, at random.
class UnreliableStore final : public KvStore {
 public:
  explicit UnreliableStore(uint64_t seed) : random_(seed), inner_(4 << 20) {}
  std::optional<KvEntry> find(const KvKey& key) override {
    if (one_in(20)) return std::nullopt;
    return inner_.find(key);
  }
  void get(std::span<KvRead> reads) override {
    if (one_in(4)) std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 60));
    inner_.get(reads);
    for (KvRead& read : reads) {
      if (one_in(60)) read.found = false;
      if (one_in(60)) read.payload[random_() % read.payload.size()] ^= std::byte{1};
    }
    if (reads.size() > 1 && one_in(6) && reads[0].payload.size() == reads[1].payload.size())
      std::copy(reads[0].payload.begin(), reads[0].payload.end(), reads[1].payload.begin());
  }
  Status put(std::span<const KvWrite> writes) override {
    if (one_in(5)) std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 30));
    if (one_in(6)) return io_error("as planned");
    if (one_in(8)) throw std::bad_alloc();
    return inner_.put(writes);
  }
  bool writable() const override { return true; }
  KvStoreStats stats() const override { return inner_.stats(); }

 private:
  bool one_in(uint64_t n) { return random_() % n == 0; }

  std::mt19937_64 random_;
  MemoryKvStore inner_;
};

TEST_F(EngineSwap, AnUnreliableTierChangesNoAnswer) {
  EngineOptions options = small_pool();
  options.kv_tier_patience = std::chrono::milliseconds(50);
  options.kv_store = [](const std::string&) -> Result<std::unique_ptr<KvStore>> {
    return std::unique_ptr<KvStore>(std::make_unique<UnreliableStore>(6));
  };
  options.kv_host_bytes = 1 << 20;
  EXPECT_GT(run(options, 6, "unreliable tier").preemptions, 0);
}

TEST_F(EngineSwap, OptionsAreChecked) {
  const auto message = [](EngineOptions o) {
    o.model = DEEPINFER_TEST_MODEL;
    return Engine::open(o, kBackend.make()).status().message();
  };
  EngineOptions options = small_pool();
  options.kv_host_bytes = -1;
  EXPECT_NE(message(options).find("kv_host_bytes is -1; allowed: 0 to"), std::string::npos) << message(options);
  options.kv_host_bytes = 1000;
  EXPECT_NE(message(options).find("kv_host_bytes is 1000; allowed: 0, or "), std::string::npos) << message(options);
  options.kv_host_bytes = 64 << 20;
  options.prefix_cache = false;
  EXPECT_NE(message(options).find("kv_host_bytes needs prefix_cache"), std::string::npos) << message(options);
}

}  // namespace
}  // namespace deepinfer
