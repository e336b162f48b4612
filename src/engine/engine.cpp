#include <algorithm>
#include <new>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/caught_exception.h"
#include "engine/threaded_engine.h"

namespace deepinfer {
namespace {

// With so few running a plan takes less than waking the planner.
constexpr int64_t kFewSequences = 16;
// Of the cache's pool that are looked at when the engine rests: the next request may wait for it.
constexpr int64_t kBlocksChecked = 1024;

// An inbox that grows loses nothing when there is no memory for that.
static_assert(std::is_nothrow_move_constructible_v<Submission>);

}  // namespace

void ThreadedEngine::Inbox::clear() {
  submissions.clear();
  cancellations.clear();
  outcomes.clear();
  tier_answers = change = false;
}

ThreadedEngine::ThreadedEngine(EngineSetup setup)
    : setup_(std::move(setup)),
      executor_(*setup_.model, *setup_.ops, *setup_.memory,
                DraftPlanner(setup_.options.draft_schedule, setup_.step_cost), setup_.options.max_sequences),
      start_(std::chrono::steady_clock::now()),
      lifecycle_([this] { look_for_change(); }) {
  try {
    for (Inbox* inbox : {&inbox_, &taken_}) inbox->outcomes.reserve(slots_.size());
    for (StepSlot& slot : slots_) {
      slot.outcome.reserve(setup_.options.max_sequences);
      free_slots_.push_back(&slot);
    }
    if (setup_.tier_store) start_tier(std::move(setup_.tier_store));
    output_thread_ = std::thread([this] { deliver(); });
    executor_thread_ = std::thread([this] { execute(); });
    planner_thread_ = std::thread([this] { plan(); });
  } catch (...) {
    stop();
    throw;
  }
}

void ThreadedEngine::stop() {
  const auto join = [](std::thread& thread) {
    if (thread.joinable()) thread.join();
  };
  begin_close();
  join(planner_thread_);  // when nothing is alive any more
  plans_.close();
  join(executor_thread_);  // which planned too
  close_tier();            // writes what is on its way
  deliveries_.close();
  join(output_thread_);
}

Status ThreadedEngine::engine_closes() {
  return {StatusCode::kCancelled, "the engine is closing"};
}

void ThreadedEngine::begin_close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  lifecycle_.close(engine_closes());
  work_.notify_one();
}

bool ThreadedEngine::failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.ok();
}

void ThreadedEngine::break_down(Status why) noexcept {
  lifecycle_.close(copy_without_fail(why));
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(why);
  }
  work_.notify_one();
  plans_.close();
  deliveries_.close();
}

void ThreadedEngine::plan() {
  bool closing = false;  // and everything has been cancelled: what is left comes from the executor
  for (Time wake_up = kNever;;) {
    {
      std::unique_lock lock(mutex_);
      const auto ready = [&] { return (closing_ && !closing) || !inbox_.empty() || !failure_.ok(); };
      if (wake_up == kNever) {
        work_.wait(lock, ready);
      } else {
        work_.wait_until(lock, start_ + wake_up, ready);
      }
    }
    const std::lock_guard planning(planning_mutex_);
    {
      // Taken while nobody else plans: outcomes stay in order.
      const std::lock_guard lock(mutex_);
      if (!failure_.ok()) return;
      std::swap(inbox_, taken_);
      busy_ = true;
      closing = closing_;
    }
    try {
      plan_once(closing);
      make_change();
      wake_up = wake_up_time();
      planned();
      if (closing && setup_.scheduler->idle() && compiling_.empty()) return;
    } catch (...) {
      return break_down(caught_exception("the engine has failed: planning"));
    }
  }
}

void ThreadedEngine::plan_once(bool closing) {
  Scheduler& scheduler = *setup_.scheduler;
  const Time start = now();
  take(outgoing_);
  taken_.clear();
  if (closing) {
    for (const RequestId id : ledger_.unfinished()) cancel_known(id, outgoing_);
  }
  forget_ended();
  end_overdue_held(outgoing_);
  if (closing || lifecycle_.plans()) {
    while (start_step()) {
    }
  } else {
    scheduler.end_overdue(now());
  }
  ended_.clear();
  scheduler.take_ended(ended_);
  for (const EndedRequest& ended : ended_) ledger_.end(ended, now(), outgoing_);
  tell_ends(outgoing_);
  if (!outgoing_.items.empty()) deliveries_.push(std::move(outgoing_));
  outgoing_ = {};
  counted_.scheduler = scheduler.stats();
  counted_.planning += now() - start;
  {
    const std::lock_guard lock(mutex_);
    stats_ = counted_;
  }
  if (!scheduler.idle()) return;
  try {
    if (closing) {
      scheduler.check_integrity();
    } else {
      scheduler.check_part(kBlocksChecked);
    }
  } catch (const std::bad_alloc&) {  // a check changes nothing: it is left out
  }
}

bool ThreadedEngine::plan_between_steps() {
  const std::unique_lock planning(planning_mutex_, std::try_to_lock);
  // Whoever waits for a grammar, for a change or to be let in has the planner's clock running; copies for the tier take
  // their time.
  if (!planning || tier_ || !compiling_.empty() || !held_.empty() || lifecycle_.due() ||
      counted_.scheduler.running > kFewSequences)
    return false;
  {
    const std::lock_guard lock(mutex_);
    if (closing_ || !failure_.ok() || !inbox_.only_outcomes()) return false;
    taken_.outcomes.swap(inbox_.outcomes);
    busy_ = true;
  }
  try {
    plan_once(false);
    planned();
  } catch (...) {
    break_down(caught_exception("the engine has failed: planning"));
  }
  return true;
}

void ThreadedEngine::planned() {
  bool settled = false;
  {
    const std::lock_guard lock(mutex_);
    busy_ = free_slots_.size() < slots_.size();
    settled = !busy_ && undelivered_ == 0;
  }
  if (settled) delivered_.notify_all();
}

Time ThreadedEngine::wake_up_time() const {
  // A compiler does not call back: while a grammar is made one looks again soon.
  constexpr Time kGrammarPoll = std::chrono::milliseconds(1);
  Time time = setup_.scheduler->next_deadline();  // outcomes alone never make it earlier
  if (!compiling_.empty()) time = std::min(time, now() + kGrammarPoll);
  if (tier_) time = std::min(time, tier_->next_deadline());
  for (const Submission& held : held_) time = std::min(time, held.request.deadline);
  return time;
}

void ThreadedEngine::take(DeliveryBatch& batch) {
  Scheduler& scheduler = *setup_.scheduler;
  for (Submission& submission : taken_.submissions) {
    ledger_.add(submission.request.id, std::move(submission.on_update), submission.at, submission.marks);
    if (lifecycle_.holds(submission.request.id)) {
      held_.push_back(std::move(submission));
    } else {
      start(std::move(submission), batch);
    }
  }
  for (const RequestId id : taken_.cancellations) cancel_known(id, batch);
  take_compiled(batch);
  take_from_tier(batch);
  for (StepSlot* slot : taken_.outcomes) {
    const StepOutcome& outcome = slot->outcome;
    scheduler.advance(outcome.result);
    ++counted_.steps;
    counted_.executing += outcome.result.duration;
    if (tier_) tier_->step_done(slot->plan.prefill_rows, slot->plan.decode_rows, outcome.result.duration);
    for (const StepOutcome::Detail& detail : outcome.details) {
      counted_.drafted += detail.drafted;
      counted_.accepted += detail.accepted;
    }
    ledger_.report(slot->outcome, now(), batch);
    observe([&](EngineObserver& o) { o.step_done(slot->plan, outcome, scheduler.stats(), slot->times); });
    free_slots_.push_back(slot);
  }
}

// Requests that ended before any plan named them never reach the executor.
void ThreadedEngine::forget_ended() {
  ledger_.take_removals(removals_);
  if (removals_.empty() || additions_.empty()) return;
  const std::unordered_set<RequestId> ended(removals_.begin(), removals_.end());
  std::erase_if(additions_, [&](const auto& sequence) { return ended.contains(sequence->id()); });
}

void ThreadedEngine::tell_ends(const DeliveryBatch& batch) {
  if (setup_.options.observers.empty()) return;
  for (const DeliveryBatch::Item& item : batch.items)
    if (item.end) observe([&](EngineObserver& o) { o.request_ended(item.id, *item.end, now()); });
}

bool ThreadedEngine::start_step() {
  if (free_slots_.empty()) return false;
  StepSlot& slot = *free_slots_.back();
  slot.times.plan_start = now();
  if (!setup_.scheduler->next_plan(now(), slot.plan)) return false;
  free_slots_.pop_back();
  slot.removals = std::exchange(removals_, {});
  ledger_.planned(slot.plan, now());
  slot.additions = std::exchange(additions_, {});
  slot.times.plan_end = now();
  plans_.push(&slot);
  return true;
}

void ThreadedEngine::execute() {
  setup_.ops->bind_caller();
  for (StepSlot* next = nullptr; plans_.pop(next);) {
    if (failed()) return;
    try {
      if (Status device = run_step(*next); !device.ok())
        return break_down(device.with_context("the engine has failed: its device"));
    } catch (...) {
      return break_down(caught_exception("the engine has failed: between two steps"));
    }
    if (!plan_between_steps()) work_.notify_one();
  }
}

Status ThreadedEngine::run_step(StepSlot& slot) {
  for (auto& sequence : slot.additions) executor_.add(std::move(sequence));
  for (const RequestId id : slot.removals) executor_.remove(id);
  slot.times.run_start = now();
  executor_.run(slot.plan, slot.outcome);
  slot.times.run_end = now();
  // What the step chose is worth nothing then, and nobody hears of it.
  DI_RETURN_IF_ERROR(setup_.ops->health());
  const std::lock_guard lock(mutex_);
  inbox_.outcomes.push_back(&slot);
  return {};
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options, std::unique_ptr<Ops> ops) {
  try {
    DI_ASSIGN_OR_RETURN(EngineSetup setup, set_up_engine(options, std::move(ops)));
    return std::unique_ptr<Engine>(std::make_unique<ThreadedEngine>(std::move(setup)));
  } catch (...) {
    return caught_exception("an engine");
  }
}

}  // namespace deepinfer
