// Memory of an engine over 100,000 requests of every kind: what is in use after the first 10,000 is what is in use
// after the last.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "backends/cpu_backends.h"
#include "bench/null_model.h"
#include "engine/engine.h"
#include "engine/metrics/engine_metrics.h"
#include "engine/metrics/stats_line.h"

namespace deepinfer {
namespace {

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// In use, whatever the allocator keeps beside it.
int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// Short requests: prompts that share prefixes, grammars, choices, penalties, log-probabilities; some are refused, some
// fail, some are cancelled, some run out of time.
class Requests {
 public:
  EngineRequest next() {
    EngineRequest request;
    const uint32_t base = below(40);
    const int64_t length = 1 + below(chance(20) ? 600 : 40);
    for (int64_t i = 0; i < length; ++i)
      request.prompt.push_back(static_cast<int32_t>((static_cast<uint32_t>(i) * 7 + base * 131) % 2000 + 1));
    if (chance(30)) request.prompt.back() = static_cast<int32_t>(1 + below(2000));
    request.params.max_tokens = 1 + below(2);
    request.params.temperature = chance(50) ? 0.0f : 1.0f;
    request.params.seed = random_();
    request.params.logprobs = static_cast<int32_t>(below(3)) - 1;
    if (chance(20)) request.params.repetition_penalty = 1.2f;
    if (chance(10)) request.params.stop_tokens = {request.prompt.back() + 1};  // what the null model says next
    if (chance(5)) request.prompt_logprobs = 0;
    if (chance(5)) request.allowed_tokens = {5, 6, 7};
    if (chance(5)) request.bad_words = {{5, 6}};
    request.cache_salt = below(3);
    request.priority = static_cast<int32_t>(below(2));
    request.choice = below(2);
    request.use_prefix_cache = chance(90);
    if (chance(5)) {
      GrammarSpec& grammar = request.grammar.emplace();
      grammar.text = R"({"type":"object","properties":{"a)" + std::to_string(below(20)) + R"(":{"type":"integer"}}})";
      if (chance(20)) grammar.text = "no schema";
      if (chance(20)) request.forced_tokens = {9, 9};
    }
    if (chance(3)) request.timeout = std::chrono::milliseconds(1);
    if (chance(2)) request.params.top_k = -1;  // refused
    return request;
  }
  bool chance(uint32_t percent) { return below(100) < percent; }

 private:
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  std::mt19937_64 random_{1};
};

class Load {
 public:
  Load() {
    EngineOptions options;
    options.model = DEEPINFER_TEST_MODEL;  // for the tokens of grammars
    options.make_model = [](const StepLimits& limits, Ops& ops) {
      return bench::NullModel::create({.vocabulary = 4096, .max_context = 2048}, limits, ops);
    };
    options.cache_bytes = 200 * 512;  // 200 blocks: something is evicted all the time
    options.max_sequences = 32;
    options.observers = {metrics_,
                         std::make_shared<StatsLine>(1000, StatsLine::Limits{512, 32, 1e9}, [](std::string_view) {})};
    engine_ = Engine::open(options, make_cpu_path(machine_paths().front(), 1)).value();
  }

  void run(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      {
        std::unique_lock lock(mutex_);
        some_ended_.wait(lock, [this] { return running_ < 64; });
        ++running_;
      }
      const auto id = engine_->submit(requests_.next(), [this](const RequestUpdate& update) {
        if (update.end != nullptr) end(update.end->reason);
      });
      if (!id.ok()) {
        ++refused_;
        end(std::nullopt);
      } else if (requests_.chance(10)) {
        engine_->cancel(*id);
      }
    }
    engine_->drain();
  }

  const EngineMetrics& metrics() const { return *metrics_; }
  EngineStats stats() const { return engine_->stats(); }
  int64_t refused() const { return refused_; }

 private:
  void end(std::optional<EndReason>) {
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    some_ended_.notify_one();
  }

  std::shared_ptr<EngineMetrics> metrics_ = std::make_shared<EngineMetrics>();
  Requests requests_;
  std::mutex mutex_;
  std::condition_variable some_ended_;
  int64_t running_ = 0;
  std::atomic<int64_t> refused_{0};
  std::unique_ptr<Engine> engine_;
};

TEST(EngineMemory, IsFlatOverAHundredThousandRequests) {
  Load load;
  load.run(10'000);
  const int64_t resident = resident_bytes(), heap = heap_bytes();
  for (int i = 1; i < 10; ++i) {
    load.run(10'000);
    std::printf("%d0000 requests: %.2f MB resident, %.3f MB of heap in use\n", i + 1,
                static_cast<double>(resident_bytes()) / 1e6, static_cast<double>(heap_bytes()) / 1e6);
  }
  EXPECT_LT(resident_bytes() - resident, 4'000'000);
  EXPECT_LT(heap_bytes() - heap, 1'000'000);
  const EngineMetrics& m = load.metrics();
  std::printf("ended: stop %ld, length %ld, cancelled %ld, deadline %ld, error %ld; refused %ld; cached tokens %ld\n",
              m.stopped.value(), m.length.value(), m.cancelled.value(), m.expired.value(), m.failed.value(),
              load.refused(), m.cached_tokens.value());
  for (const Counter* counter : {&m.stopped, &m.length, &m.cancelled, &m.failed, &m.cached_tokens})
    EXPECT_GT(counter->value(), 100);
}

}  // namespace
}  // namespace deepinfer
