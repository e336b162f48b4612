// ScriptedEngine: a scheduler on a symbolic executor, driven by hand.  For tests of single rules.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "scheduling/scheduler.h"
#include "scheduling/symbolic_executor.h"

namespace deepinfer::testing {

class ScriptedEngine {
 public:
  // 64 blocks of 16 tokens, 4 sequences, two plans in flight, snapshots of one block; answers that stop nowhere.
  static SchedulerConfig small_config();

  explicit ScriptedEngine(const SchedulerConfig& config = small_config(), ExecutorConfig executor = {});

  // A request of its own tokens: no other request has the same prefix.
  static Request request(RequestId id, int64_t prompt_tokens, int64_t max_tokens);

  Status submit(const Request& request);
  void cancel(RequestId id);
  // Makes a plan; false when there is none to make.  `plan` is the last one.
  bool make_plan();
  // Runs the oldest plan in flight.
  void answer();
  // Plans until as many are in flight as may be, then one answer.
  void step();
  void run(int64_t steps);
  // Until nothing is left; checks that all blocks are back.
  void run_to_the_end();
  // Steps until the request has ended.
  void run_until_ended(RequestId id);

  bool has_ended(RequestId id) const { return ended.contains(id); }
  Scheduler& scheduler() { return *scheduler_; }
  SymbolicExecutor& executor() { return executor_; }
  const std::vector<int32_t>& tokens(RequestId id) const { return tokens_.at(id); }  // prompt and answer so far

  bool checks = true;  // all invariants after each plan and each answer
  Time now{0};
  StepPlan plan;
  StepResult result;
  std::vector<StepPlan> plans;      // all
  std::vector<RequestId> admitted;  // in the order of admission
  std::map<RequestId, EndedRequest> ended;

 private:
  void take_ended();

  WindowRule rule_;
  SchedulerConfig config_;
  std::unique_ptr<Scheduler> scheduler_;
  SymbolicExecutor executor_;
  std::map<RequestId, std::vector<int32_t>> tokens_;
};

}  // namespace deepinfer::testing
