// An engine without a model: what it answers is written down.  Updates come on a thread of its own, as the real one's.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "text/tokenizer.h"

namespace deepinfer::serving {

struct ScriptedAnswer {
  std::vector<std::vector<GeneratedToken>> steps;  // tokens of each update
  EndReason end = EndReason::kStop;                // comes with an update of its own
  Status failure;                                  // with kError
  std::vector<GeneratedToken> prompt_logprobs;
  int64_t cached_tokens = 0;  // of the prompt
  int64_t drafted = 0, accepted = 0;
  bool holds = false;  // goes on behind its last step only when it is cancelled
};

class ScriptedEngine final : public Engine {
 public:
  using Script = std::function<ScriptedAnswer(const EngineRequest&)>;

  ScriptedEngine(const Tokenizer& tokenizer, Script script);
  ~ScriptedEngine() override;

  // The requests so far.
  std::vector<EngineRequest> seen() const;
  // How many were cancelled while they ran.
  size_t cancelled() const;
  void refuse_with(Status status) { refusal_ = std::move(status); }
  // Breaks down, as an engine does whose threads have thrown: what runs ends with this, and nothing is accepted.
  void fail(Status why);
  // Tiers that were emptied, as "device", "host", "device host".
  std::vector<std::string> forgotten() const;

  Result<RequestId> submit(EngineRequest request, RequestCallback on_update) override;
  void cancel(RequestId id) override;
  bool drain() override;
  Status pause(PauseMode mode) override;  // answers go on
  Status resume() override;
  Status sleep(PauseMode) override { return {}; }
  Status wake_up() override { return {}; }
  Status update_weights(const WeightUpdate&) override { return {}; }
  Status forget_prefixes(PrefixTiers tiers) override;
  void begin_close() override {}
  EngineStats stats() const override;
  const std::vector<MemoryPlanLine>& memory_plan() const override { return plan_; }
  int32_t vocabulary() const override { return tokenizer_.vocabulary(); }
  int32_t eos_token() const override { return 1; }
  int64_t max_context() const override { return 8192; }
  ChoiceCounts choice_counts() const override { return {}; }
  std::string_view backend_name() const override { return "scripted"; }

 private:
  struct Running {
    RequestId id = 0;
    ScriptedAnswer answer;
    RequestCallback on_update;
    int64_t prompt_tokens = 0;
    size_t step = 0;
  };

  void run();
  bool advance(Running& running);  // false: it has ended

  const Tokenizer& tokenizer_;
  Script script_;
  Status refusal_;
  std::vector<MemoryPlanLine> plan_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EngineRequest> seen_;
  std::deque<Running> running_;
  std::set<RequestId> cancelled_;
  size_t cancelled_running_ = 0;
  EngineState state_ = EngineState::kRunning;
  Status failure_;
  std::vector<std::string> forgotten_;
  RequestId next_ = 1;
  bool closing_ = false;
  std::thread thread_;
};

// The tokens of a text, control tokens by their spelling, one a step.
ScriptedAnswer scripted_text(const Tokenizer& tokenizer, std::string_view text, EndReason end = EndReason::kStop);

}  // namespace deepinfer::serving
