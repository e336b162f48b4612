// What the engine costs one request: time a token of an answer from the engine against the bare loop of a Generator, on
// the demonstration model, greedy, without drafts.  engine_cost MODEL [--threads N] [--rounds N] [--tokens N]
//
// Both run in turn on the same weights.  Low quantiles of the gaps between tokens are of steps that nothing else on the
// machine disturbed; what the engine does in every step is in them.  How often the process's threads left a cpu
// (asleep, or driven off it) is told beside.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "engine/engine.h"
#include "engine/generator.h"
#include "engine/metrics/engine_metrics.h"

namespace deepinfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

template <typename T>
T value_or_exit(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cerr << result.status().to_string() << "\n";
  std::exit(1);
}

double quantile(std::vector<double> values, double q) {
  const auto place = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

std::unique_ptr<Ops> make_ops(int threads) {
  CpuOpsOptions cpu;
  cpu.threads.threads = threads;
  return value_or_exit(make_cpu_ops(cpu));
}

// Gaps between the tokens of answers, in microseconds, and switches between threads meanwhile.
class Gaps {
 public:
  void begin() {
    last_ = {};
    getrusage(RUSAGE_SELF, &begun_);
  }
  void end() {
    rusage now{};
    getrusage(RUSAGE_SELF, &now);
    slept_ += now.ru_nvcsw - begun_.ru_nvcsw;
    driven_off_ += now.ru_nivcsw - begun_.ru_nivcsw;
  }
  void tick() {
    const auto now = Clock::now();
    if (last_ != Clock::time_point{}) gaps_.push_back(std::chrono::duration<double, std::micro>(now - last_).count());
    last_ = now;
  }
  double at(double q) const { return quantile(gaps_, q); }
  double mean() const { return std::accumulate(gaps_.begin(), gaps_.end(), 0.0) / static_cast<double>(gaps_.size()); }
  double slept() const { return static_cast<double>(slept_) / static_cast<double>(gaps_.size()); }
  double driven_off() const { return static_cast<double>(driven_off_) / static_cast<double>(gaps_.size()); }

 private:
  Clock::time_point last_{};
  std::vector<double> gaps_;
  rusage begun_{};
  int64_t slept_ = 0, driven_off_ = 0;
};

void compare(const std::string& model, int threads, int rounds, int64_t tokens) {
  GenerationParams params;
  params.temperature = 0;
  params.draft_tokens = 0;
  params.max_tokens = tokens;
  const std::vector<int32_t> prompt{0, 4, 2295, 23, 5, 7};

  GeneratorOptions alone;
  alone.model = model;
  alone.max_context = 2048;
  EngineOptions many;
  many.model = model;
  many.max_context = 2048;
  many.draft_schedule = DraftSchedule::kAll;
  many.observers = {std::make_shared<EngineMetrics>()};
  // One at a time, so that spinning threads of the one do not take cores from the other.
  Gaps bare, engine;
  for (int round = 0; round < rounds; ++round) {
    {
      const auto generator = value_or_exit(Generator::open(alone, make_ops(threads)));
      bare.begin();
      value_or_exit(generator->generate(prompt, params, [&](std::span<const GeneratedToken>) {
        bare.tick();
        return true;
      }));
      bare.end();
    }
    const auto opened = value_or_exit(Engine::open(many, make_ops(threads)));
    engine.begin();
    EngineRequest request;
    request.prompt = prompt;
    request.params = params;
    value_or_exit(opened->submit(std::move(request), [&](const RequestUpdate& update) {
      if (!update.tokens.empty()) engine.tick();
    }));
    opened->drain();
    engine.end();
  }
  std::cout << threads << " threads, mean: bare loop " << bare.mean() << " us a token, engine " << engine.mean()
            << ", cost " << 100 * (engine.mean() / bare.mean() - 1)
            << " %; switches a token, asleep and driven off: " << bare.slept() << " " << bare.driven_off() << ", "
            << engine.slept() << " " << engine.driven_off() << "\n";
  for (const double q : {0.1, 0.25, 0.5})
    std::cout << threads << " threads, quantile " << q << " of the gaps: bare loop " << bare.at(q)
              << " us a token, engine " << engine.at(q) << ", cost " << 100 * (engine.at(q) / bare.at(q) - 1) << " %\n";
}

int run(int argc, char** argv) {
  std::string model;
  int threads = 0, rounds = 15;
  int64_t tokens = 400;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--threads" && has_value) {
      threads = std::atoi(argv[++i]);
    } else if (argument == "--rounds" && has_value) {
      rounds = std::atoi(argv[++i]);
    } else if (argument == "--tokens" && has_value) {
      tokens = std::atoll(argv[++i]);
    } else {
      model = argument;
    }
  }
  if (model.empty() || rounds < 1 || tokens < 3) {
    std::cerr << "usage: engine_cost MODEL [--threads N] [--rounds N] [--tokens N]\n";
    return 2;
  }
  if (threads > 0) {
    compare(model, threads, rounds, tokens);
  } else {
    for (const int each : {1, 2}) compare(model, each, rounds, tokens);
  }
  return 0;
}

}  // namespace
}  // namespace deepinfer::bench

int main(int argc, char** argv) {
  return deepinfer::bench::run(argc, argv);
}
