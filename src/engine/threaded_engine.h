// ThreadedEngine: the Engine of this library: planner, executor and output thread around a Scheduler and a
// StepExecutor.  With few sequences the executor's thread takes over the planner's work between two steps. Sources:
// planner and executor (engine.cpp), what becomes of a request before the scheduler has it (engine_requests.cpp), the
// output thread (engine_delivery.cpp), and how the engine rests (engine_lifecycle.cpp).
//
// Whatever planner or executor throw outside of a step makes the engine fail: both leave, and the output thread, which
// needs no memory for that, ends every request that was accepted.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/blocking_queue.h"
#include "engine/engine.h"
#include "engine/engine_setup.h"
#include "engine/lifecycle.h"
#include "engine/request_ledger.h"
#include "engine/step_executor.h"
#include "engine/tiered_prefixes.h"
#include "grammar/grammar_compiler.h"

namespace deepinfer {

struct Submission {
  Request request;
  std::unique_ptr<RunningSequence> sequence;
  RequestCallback on_update;
  Time at{0};
  AnswerMarks marks;
  // A request with a grammar becomes a sequence when the grammar has been compiled.
  EngineRequest wanted;
  GrammarTicket grammar;
};

// One plan on its way to the executor and back.
struct StepSlot {
  StepPlan plan;
  std::vector<std::unique_ptr<RunningSequence>> additions;  // before the plan
  std::vector<RequestId> removals;                          // before the plan: in none that follows
  StepOutcome outcome;
  StepTimes times;
};

class ThreadedEngine final : public Engine {
 public:
  explicit ThreadedEngine(EngineSetup setup);
  ~ThreadedEngine() override { stop(); }

  void begin_close() override;
  Result<RequestId> submit(EngineRequest request, RequestCallback on_update) override;
  void cancel(RequestId id) override;

  bool drain() override {
    std::unique_lock lock(mutex_);
    delivered_.wait(lock, [this] { return (undelivered_ == 0 && (!busy_ || !failure_.ok())) || lifecycle_.resting(); });
    return undelivered_ == 0;
  }

  // engine_lifecycle.cpp
  Status pause(PauseMode mode) override;
  Status resume() override;
  Status sleep(PauseMode mode) override;
  Status wake_up() override;
  Status update_weights(const WeightUpdate& update) override;
  Status forget_prefixes(PrefixTiers tiers) override;

  EngineStats stats() const override;
  const std::vector<MemoryPlanLine>& memory_plan() const override { return setup_.memory_plan; }
  int32_t vocabulary() const override { return setup_.model->info().vocabulary; }
  int32_t eos_token() const override { return setup_.model->info().eos_token; }
  int64_t max_context() const override { return setup_.options.max_context; }
  ChoiceCounts choice_counts() const override { return setup_.model->info().choices; }
  std::string_view backend_name() const override { return setup_.ops->name(); }

 private:
  struct Inbox {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancellations;
    std::vector<StepSlot*> outcomes;
    bool tier_answers = false;  // the tier has some
    bool change = false;        // look at the lifecycle
    bool only_outcomes() const { return submissions.empty() && cancellations.empty() && !tier_answers && !change; }
    bool empty() const { return only_outcomes() && outcomes.empty(); }
    void clear();
  };

  Time now() const { return std::chrono::steady_clock::now() - start_; }
  Result<RequestId> accept(EngineRequest request, RequestCallback on_update);
  // Made when the first request needs it.
  Result<GrammarCompiler*> grammar_compiler();

  void stop();
  static Status engine_closes();  // what callers are told then

  // One thread each.
  void plan();
  void execute();
  void deliver();

  // Nothing can go on: called by planner or executor, which leave then.
  void break_down(Status why) noexcept;
  bool failed() const;

  // Of the planner: one call at a time, under planning_mutex_, with what was taken_ from the inbox.
  void plan_once(bool closing);
  Status run_step(StepSlot& slot);  // the device's, as far as it has told of an error
  // By the executor: plans on when outcomes are all that there is to take and few sequences run; else false.
  bool plan_between_steps();
  void planned();             // after each plan_once()
  Time wake_up_time() const;  // when there is something to do although nothing happens
  void take(DeliveryBatch& batch);
  // A new request: waits for its grammar, or is scheduled.
  void start(Submission submission, DeliveryBatch& batch);
  void start_tier(std::unique_ptr<KvStore> store);
  void take_from_tier(DeliveryBatch& batch);
  // Hands a request to the scheduler, or lets it wait for the tier.
  void schedule(Submission submission, DeliveryBatch& batch);
  void submit_to_scheduler(Submission submission, DeliveryBatch& batch);
  void cancel_known(RequestId id, DeliveryBatch& batch);
  void take_compiled(DeliveryBatch& batch);
  void forget_ended();
  void tell_ends(const DeliveryBatch& batch);
  bool start_step();
  template <typename Tell>
  void observe(Tell tell) noexcept {
    for (const auto& observer : setup_.options.observers) {
      try {
        tell(*observer);
      } catch (...) {
      }
    }
  }

  // engine_delivery.cpp; the output thread.
  void hand_out(DeliveryBatch& batch);
  void call(RequestId id, Recipient& recipient, const RequestUpdate& update);
  void end_failed(RequestId id, Recipient& recipient, RequestSummary& summary);
  void end_all_failed();

  // engine_lifecycle.cpp; the planner, but for the first two.
  Status callable(std::string_view call) const;
  void look_for_change();
  void make_change();  // that has been asked for, if it can be made now
  void release_held(DeliveryBatch& batch);
  void end_overdue_held(DeliveryBatch& batch);
  void vacate();  // nothing is on the device or cached afterwards
  Status open_tier(const std::string& identity);
  void close_tier();
  void hold_those_who_ask_the_tier();
  Status use_weights(PreparedWeights& weights, const std::string& identity, bool keep_records);

  EngineSetup setup_;
  StepExecutor executor_;
  const std::chrono::steady_clock::time_point start_;
  Lifecycle lifecycle_;
  std::atomic<RequestId> next_id_{1};

  mutable std::mutex mutex_;
  std::condition_variable work_, delivered_;
  Inbox inbox_;
  bool closing_ = false;
  bool busy_ = false;        // somebody plans, or a plan is on its way to the executor and back
  Status failure_;           // what made the engine fail
  int64_t undelivered_ = 0;  // accepted requests whose last update was not delivered
  EngineStats stats_;

  std::mutex grammar_mutex_;
  std::unique_ptr<GrammarCompiler> grammar_compiler_;

  // What follows, and the scheduler, belongs to who plans.
  std::mutex planning_mutex_;
  Inbox taken_;
  DeliveryBatch outgoing_;  // on its way to the output thread, which takes what is left here when the engine fails
  RequestLedger ledger_;
  std::vector<Submission> held_;       // wait until the engine runs again
  std::vector<Submission> compiling_;  // wait for their grammars
  std::vector<Submission> asking_;     // wait for the tier
  std::vector<TieredPrefixes::Ready> ready_;
  std::vector<std::unique_ptr<RunningSequence>> additions_;  // not yet handed to the executor
  std::vector<RequestId> removals_;
  std::vector<StepSlot*> free_slots_;
  std::vector<EndedRequest> ended_;
  EngineStats counted_;

  mutable std::mutex tier_mutex_;         // stats() against the planner, which exchanges it
  std::unique_ptr<TieredPrefixes> tier_;  // null: there is none

  std::array<StepSlot, 2> slots_;  // plans in flight
  BlockingQueue<StepSlot*> plans_;
  BlockingQueue<DeliveryBatch> deliveries_;
  std::thread output_thread_, executor_thread_, planner_thread_;
};

}  // namespace deepinfer
