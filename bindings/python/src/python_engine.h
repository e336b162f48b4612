// PythonEngine: an engine and its tokenizer as the Python package holds them.  Every method may be called from any
// thread without the interpreter's lock; after close() requests are refused.
#pragma once

#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "answer.h"
#include "backends/named_backend.h"
#include "engine/engine.h"
#include "engine/metrics/engine_metrics.h"
#include "engine/text_generation.h"
#include "text/tokenizer.h"

namespace deepinfer::python {

struct PythonEngineOptions {
  EngineOptions engine;
  std::string tokenizer;         // folder or tokenizer.json; empty: the model's
  std::string backend = "auto";  // "auto" (the CPU), "cpu", "cuda" or "reference"
  double gpu_memory_utilization = kGpuMemoryUtilization;
  std::string expert_placement = "device", engram_placement = "disk";
  int threads = 0;             // 0: one per physical core
  int64_t stats_interval = 0;  // steps between two lines of statistics on standard error; 0: none
  std::string request_log;     // a new file for every request and answer; empty: none
};

// More than 0 on an engine's output thread while it runs Python code: a garbage collection there may close the engine,
// which waits for that very thread.
inline thread_local int python_calls_of_output_thread = 0;

class PythonEngine {
 public:
  static Result<std::unique_ptr<PythonEngine>> open(const PythonEngineOptions& options);
  ~PythonEngine();

  // Sends the request once for each answer, as choices 0, 1, ...; long prompts are computed by the first, and the
  // others follow with its first token and find the prompt's blocks in the cache.  An error is of all of them.
  Status submit(TextRequest request, std::vector<std::shared_ptr<PendingAnswer>> answers);
  void cancel(PendingAnswer& answer);
  // Cancels what runs, delivers the ends and frees the model: on a thread of its own, without waiting, where an output
  // thread calls.  A second call does nothing.
  void close();

  // Engine's calls of these names, which wait without a lock: close() ends the waits.
  Status pause(PauseMode mode);
  Status resume();
  Status sleep(PauseMode mode);
  Status wake_up();
  Status update_weights(const WeightUpdate& update);
  Status forget_prefixes(PrefixTiers tiers);

  // For Prometheus; also after close().
  std::string metrics_text(const std::string& model) const { return prometheus_text(*metrics_, model); }
  std::shared_ptr<const Tokenizer> tokenizer() const { return tokenizer_; }
  // Calls use(const Engine&); false after close().
  template <typename Use>
  bool look(Use&& use) const {
    std::shared_lock lock(mutex_);
    if (engine_ == nullptr) return false;
    use(*engine_);
    return true;
  }

 private:
  // The engine, or what callers are told after close().
  Result<std::shared_ptr<Engine>> open_engine() const;

  mutable std::shared_mutex mutex_;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<EngineMetrics> metrics_;
};

}  // namespace deepinfer::python
