// Engines with a tier below the block pool: they find what earlier ones computed, and whatever the tier does, answers
// are those of a generator that has no cache at all, bit for bit.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "engine/tiers/memory_kv_store.h"
#include "engine/tiers/solo_answers.h"
#include "engine/tiers/store_folder.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> text(int64_t length, std::vector<int32_t> tail = {}) {
  static const std::vector<int32_t> all = ForwardGolden("recall").ids();
  std::vector<int32_t> tokens(all.begin(), all.begin() + length);
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  return tokens;
}

EngineRequest request(std::vector<int32_t> prompt, int64_t tokens = 12) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.params = greedy_params(tokens, -1);
  request.params.stop_tokens.clear();
  request.params.logprobs = 2;
  return request;
}

EngineOptions options() {
  EngineOptions options;
  options.max_context = 2048;
  options.cache_bytes = 32 << 20;
  options.max_sequences = 4;
  options.early_snapshot_interval = 256;
  options.draft_schedule = DraftSchedule::kAll;  // no measurement at the start
  return options;
}

EngineOptions on_disk(const StoreFolder& folder) {
  EngineOptions with_disk = options();
  with_disk.kv_disk_folder = folder.path();
  with_disk.kv_disk_bytes = 64 << 20;
  with_disk.kv_tier_patience = std::chrono::minutes(10);  // whatever else the machine does
  return with_disk;
}

class EngineTier : public SoloAnswers {
 protected:
  // Runs a request, compares its answer with the solo one and returns how it ended.
  static RequestSummary run(EngineRun& engine, const EngineRequest& request, const std::string& what) {
    const auto id = engine.submit(request);
    DI_CHECK(id.ok(), id.status().message());
    engine.drain();
    expect_solo_answer(engine, *id, request, what);
    return engine.seen(*id).ends.at(0);
  }
};

TEST_F(EngineTier, ALaterEngineFindsPromptAndAnswer) {
  const StoreFolder folder;
  const EngineRequest first = request(text(600), 100);
  std::vector<int32_t> next = first.prompt;
  {
    EngineRun engine(kBackend, on_disk(folder));
    const auto end = run(engine, first, "first");
    EXPECT_EQ(end.tier_tokens, 0);
    for (const GeneratedToken& token : engine.seen(1).tokens) next.push_back(token.token);
  }
  EngineRun engine(kBackend, on_disk(folder));
  EXPECT_TRUE(engine.engine().stats().tier.writable);
  const auto again = run(engine, first, "again");
  EXPECT_EQ(again.tier_tokens, 512);
  EXPECT_EQ(again.cached_tokens, 512);
  next.insert(next.end(), {5, 6, 7});
  const auto turn = run(engine, request(next), "next turn");
  EXPECT_EQ(turn.cached_tokens, 640);
  // The prompt's end of an answer that this engine has given itself is in the pool.
  EXPECT_EQ(engine.engine().stats().tier.store.corrupt, 0);
  // Another salt shares nothing; a request that does not want the cache gets none.
  EngineRequest other = first;
  other.cache_salt = 1;
  EXPECT_EQ(run(engine, other, "other salt").tier_tokens, 0);
  other.cache_salt = 0;
  other.use_prefix_cache = false;
  EXPECT_EQ(run(engine, other, "no cache").cached_tokens, 0);
}

TEST_F(EngineTier, WhatThePoolHasEvictedComesBack) {
  const StoreFolder folder;
  EngineOptions small = on_disk(folder);
  small.cache_bytes = 2048 * 534 + (1 << 20);
  EngineRun engine(kBackend, small);
  run(engine, request(text(700)), "first");
  for (int32_t other = 1; other < 6; ++other) {
    EngineRequest filler = request(text(900));
    filler.cache_salt = static_cast<uint64_t>(other);
    run(engine, filler, "filler");
  }
  const auto again = run(engine, request(text(700)), "again");
  EXPECT_EQ(again.cached_tokens, 640);
}

TEST_F(EngineTier, PrefixesAreForgottenByTier) {
  EngineOptions with_memory = options();
  with_memory.kv_host_bytes = 64 << 20;
  with_memory.kv_tier_patience = std::chrono::minutes(10);
  EngineRun engine(kBackend, with_memory);
  run(engine, request(text(600)), "first");
  EXPECT_EQ(run(engine, request(text(600)), "from the pool").tier_tokens, 0);
  ASSERT_TRUE(engine.engine().forget_prefixes({.device = true, .host = false}).ok());
  EXPECT_EQ(run(engine, request(text(600)), "from host memory").tier_tokens, 512);
  ASSERT_TRUE(engine.engine().forget_prefixes({.device = false, .host = true}).ok());
  EXPECT_EQ(engine.engine().stats().tier.store.bytes_held, 0);
  const RequestSummary pool = run(engine, request(text(600)), "from the pool alone");
  EXPECT_EQ(pool.cached_tokens, 512);
  EXPECT_EQ(pool.tier_tokens, 0);
  ASSERT_TRUE(engine.engine().forget_prefixes({}).ok());
  EXPECT_EQ(run(engine, request(text(600)), "from nowhere").cached_tokens, 0);
}

TEST_F(EngineTier, ManyRequestsOverManyEngines) {
  const StoreFolder folder;
  int64_t from_tier = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    EngineOptions with_disk = on_disk(folder);
    with_disk.cache_bytes = 2048 * 534 + static_cast<int64_t>(random() % 3) * (2 << 20);
    with_disk.kv_disk_io = random() % 2 == 0 ? KvDiskIo::kAuto : KvDiskIo::kPread;
    with_disk.kv_disk_bytes = random() % 2 == 0 ? 4 << 20 : 64 << 20;
    EngineRun engine(kBackend, with_disk);
    std::vector<std::pair<RequestId, EngineRequest>> asked;
    for (int i = 0; i < 5; ++i) {
      EngineRequest r = request(text(1 + static_cast<int64_t>(random() % 700), {static_cast<int32_t>(random() % 5)}),
                                1 + static_cast<int64_t>(random() % 40));
      r.params.temperature = random() % 2 == 0 ? 0.0F : 0.9F;
      r.params.seed = random() % 3;
      r.cache_salt = random() % 2;
      if (random() % 5 == 0) r.prompt_logprobs = 0;
      asked.emplace_back(*engine.submit(r), r);
      if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
    }
    engine.drain();
    for (const auto& [id, r] : asked) {
      expect_solo_answer(engine, id, r, "request " + std::to_string(id));
      from_tier += engine.seen(id).ends.at(0).tier_tokens;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(from_tier, 0);
}

// Files are cut, zeroed, changed and lost between engines.
TEST_F(EngineTier, DamageNeverChangesAnAnswer) {
  const StoreFolder folder;
  const EngineRequest asked = request(text(600));
  int64_t hits = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    {
      EngineRun engine(kBackend, on_disk(folder));
      hits += run(engine, asked, "seed " + std::to_string(seed)).tier_tokens > 0;
    }
    if (HasFailure()) return;
    const std::vector<fs::path> files = folder.files();
    const fs::path& file = files[random() % files.size()];
    const uint64_t size = fs::file_size(file);
    switch (random() % 3) {
      case 0:
        fs::remove(file);
        break;
      case 1:
        fs::resize_file(file, size == 0 ? 0 : random() % size);
        break;
      default: {
        std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
        for (int i = 0; i < 5 && size > 0; ++i) {
          out.seekp(static_cast<std::streamoff>(random() % size));
          out.put(static_cast<char>(random()));
        }
      }
    }
  }
  EXPECT_GT(hits, 0);
}

// A store that does as it likes with what a right one does.
class FaultyStore : public KvStore {
 public:
  explicit FaultyStore(std::shared_ptr<MemoryKvStore> inner) : inner_(std::move(inner)) {}
  std::optional<KvEntry> find(const KvKey& key) override { return inner_->find(key); }
  void get(std::span<KvRead> reads) override { inner_->get(reads); }
  Status put(std::span<const KvWrite> writes) override { return inner_->put(writes); }
  bool writable() const override { return true; }
  KvStoreStats stats() const override { return inner_->stats(); }

 private:
  std::shared_ptr<MemoryKvStore> inner_;
};

class SlowStore final : public FaultyStore {
 public:
  using FaultyStore::FaultyStore;
  void get(std::span<KvRead> reads) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    FaultyStore::get(reads);
  }
};

class FailingStore final : public FaultyStore {
 public:
  using FaultyStore::FaultyStore;
  void get(std::span<KvRead> reads) override {
    FaultyStore::get(reads);
    for (KvRead& read : reads) read.found = read.found && calls_++ % 3 != 2;
  }
  Status put(std::span<const KvWrite> writes) override {
    if (calls_++ % 2 == 0) return io_error("as planned");
    return FaultyStore::put(writes);
  }

 private:
  int calls_ = 0;
};

// Every second record that is read is another one's.
class SwappingStore final : public FaultyStore {
 public:
  using FaultyStore::FaultyStore;
  void get(std::span<KvRead> reads) override {
    FaultyStore::get(reads);
    for (size_t i = 0; i + 1 < reads.size(); i += 2) {
      if (reads[i].payload.size() == reads[i + 1].payload.size())
        std::copy(reads[i].payload.begin(), reads[i].payload.end(), reads[i + 1].payload.begin());
    }
  }
};

template <typename Store>
EngineOptions on_store(const std::shared_ptr<MemoryKvStore>& memory) {
  EngineOptions with_store = options();
  with_store.kv_tier_patience = std::chrono::minutes(10);
  with_store.kv_store = [memory](const std::string&) -> Result<std::unique_ptr<KvStore>> {
    return std::unique_ptr<KvStore>(std::make_unique<Store>(memory));
  };
  return with_store;
}

TEST_F(EngineTier, AStoreInMemoryServesToo) {
  const auto memory = std::make_shared<MemoryKvStore>(64 << 20);
  {
    EngineRun engine(kBackend, on_store<FaultyStore>(memory));
    run(engine, request(text(600)), "first");
  }
  EngineRun engine(kBackend, on_store<FaultyStore>(memory));
  EXPECT_EQ(run(engine, request(text(600)), "again").tier_tokens, 512);
}

TEST_F(EngineTier, AFailingStoreCostsHitsOnly) {
  const auto memory = std::make_shared<MemoryKvStore>(64 << 20);
  for (int round = 0; round < 2; ++round) {
    EngineRun engine(kBackend, on_store<FailingStore>(memory));
    run(engine, request(text(600)), "round " + std::to_string(round));
    run(engine, request(text(900)), "round " + std::to_string(round));
  }
}

TEST_F(EngineTier, AnothersRecordIsNotTaken) {
  const auto memory = std::make_shared<MemoryKvStore>(64 << 20);
  {
    EngineRun engine(kBackend, on_store<FaultyStore>(memory));
    run(engine, request(text(900)), "first");
  }
  EngineRun engine(kBackend, on_store<SwappingStore>(memory));
  EXPECT_EQ(run(engine, request(text(900)), "swapped").tier_tokens, 0);
}

TEST_F(EngineTier, NobodyWaitsForASlowStore) {
  const auto memory = std::make_shared<MemoryKvStore>(64 << 20);
  {
    EngineRun engine(kBackend, on_store<FaultyStore>(memory));
    run(engine, request(text(600)), "first");
  }
  EngineOptions slow = on_store<SlowStore>(memory);
  slow.kv_tier_patience = std::chrono::milliseconds(20);
  EngineRun engine(kBackend, slow);
  EXPECT_EQ(run(engine, request(text(600)), "slow").tier_tokens, 0);
  // Cancelled while it waits.
  EngineRequest waiting = request(text(600));
  waiting.cache_salt = 9;
  const RequestId id = *engine.submit(waiting);
  engine.engine().cancel(id);
  engine.drain();
  EXPECT_EQ(engine.seen(id).ends.size(), 1U);
}

TEST_F(EngineTier, OptionsAreChecked) {
  const StoreFolder folder;
  const auto message = [](EngineOptions o) {
    o.model = DEEPINFER_TEST_MODEL;
    return Engine::open(o, kBackend.make()).status().message();
  };
  EngineOptions o = on_disk(folder);
  o.kv_disk_bytes = 1000;
  EXPECT_NE(message(o).find("kv_disk_bytes is 1000; allowed: 1048576 to"), std::string::npos) << message(o);
  o = on_disk(folder);
  o.prefix_cache = false;
  EXPECT_NE(message(o).find("kv_disk_folder needs prefix_cache"), std::string::npos) << message(o);
  o = on_disk(folder);
  std::ofstream(folder.path() / "file") << "x";
  o.kv_disk_folder = folder.path() / "file";
  EXPECT_NE(message(o).find("kv_disk_folder: "), std::string::npos) << message(o);
}

}  // namespace
}  // namespace deepinfer
