// How an engine pauses, sleeps and changes its weights.  The planner does all of it, between two steps: then nobody
// else touches scheduler, executor, cache memory or model.
#include <fmt/format.h>

#include <iterator>
#include <thread>
#include <utility>

#include "base/caught_exception.h"
#include "engine/threaded_engine.h"

namespace deepinfer {

EngineStats ThreadedEngine::stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
    stats.failure = copy_without_fail(failure_);
  }
  stats.state = stats.failure.ok() ? lifecycle_.state() : EngineState::kFailed;
  const std::lock_guard lock(tier_mutex_);
  if (tier_) stats.tier = tier_->stats();
  return stats;
}

Status ThreadedEngine::callable(std::string_view call) const {
  const std::thread::id self = std::this_thread::get_id();
  if (self != output_thread_.get_id() && self != planner_thread_.get_id() && self != executor_thread_.get_id())
    return {};
  return invalid_argument(
      fmt::format("{}: called on a thread of the engine, which would wait for itself; allowed: any "
                  "other thread",
                  call));
}

Status ThreadedEngine::pause(PauseMode mode) {
  DI_RETURN_IF_ERROR(callable("pause"));
  return lifecycle_.pause(mode, next_id_);
}

Status ThreadedEngine::resume() {
  DI_RETURN_IF_ERROR(callable("resume"));
  return lifecycle_.resume();
}

Status ThreadedEngine::sleep(PauseMode mode) {
  DI_RETURN_IF_ERROR(callable("sleep"));
  return lifecycle_.sleep(mode, next_id_, [this]() -> Status {
    vacate();
    setup_.memory->give_back();
    return {};
  });
}

Status ThreadedEngine::wake_up() {
  DI_RETURN_IF_ERROR(callable("wake_up"));
  return lifecycle_.wake_up();
}

Status ThreadedEngine::update_weights(const WeightUpdate& update) {
  DI_RETURN_IF_ERROR(callable("update_weights"));
  if (update.keep_records && update.mode != PauseMode::kKeep)
    return invalid_argument("keep_records is true with mode drain; allowed: with mode keep");
  // What can be wrong with the folder is found while the engine goes on.
  DI_RETURN_IF_ERROR(check_same_tokenizer(setup_, update.folder));
  DI_ASSIGN_OR_RETURN(std::shared_ptr<PreparedWeights> weights, setup_.model->prepare_weights(update.folder));
  std::string identity;
  if (wants_tier(setup_.options)) {
    DI_ASSIGN_OR_RETURN(identity, cache_identity(setup_, update.folder));
  }
  return lifecycle_.work("update_weights", update.mode, next_id_,
                         [this, weights, identity, keep = update.keep_records]() -> Status {
                           return use_weights(*weights, identity, keep);
                         });
}

Status ThreadedEngine::forget_prefixes(PrefixTiers tiers) {
  DI_RETURN_IF_ERROR(callable("forget_prefixes"));
  return lifecycle_.work("forget_prefixes", PauseMode::kKeep, next_id_, [this, tiers]() -> Status {
    if (tiers.device) setup_.scheduler->clear_cache();
    if (!tiers.host || setup_.options.kv_host_bytes == 0) return {};
    hold_those_who_ask_the_tier();
    close_tier();
    return open_tier(setup_.cache_identity);
  });
}

// --- The planner's part.

void ThreadedEngine::look_for_change() {
  {
    const std::lock_guard lock(mutex_);
    inbox_.change = true;
  }
  work_.notify_one();
}

void ThreadedEngine::make_change() {
  const std::optional<Lifecycle::Due> due = lifecycle_.due();
  if (!due || free_slots_.size() < slots_.size()) return;
  Status outcome;
  // Requests that are held have not begun and are none of those that were there.
  if (due->drains && !(setup_.scheduler->idle() && compiling_.empty() && asking_.empty())) {
    if (!due->resting) return;
    outcome =
        invalid_argument(fmt::format("{}: mode is drain, but requests are under way and the engine rests; allowed: "
                                     "keep, or resume() before",
                                     due->call));
  } else if (due->work) {
    outcome = due->work();
  }
  counted_.scheduler = setup_.scheduler->stats();
  {
    const std::lock_guard lock(mutex_);
    stats_ = counted_;
  }
  lifecycle_.made(std::move(outcome));
  if (lifecycle_.state() == EngineState::kRunning) release_held(outgoing_);
  outgoing_.ends_change = true;
  deliveries_.push(std::move(outgoing_));
  outgoing_ = {};
  look_for_change();  // for what can be planned now
}

void ThreadedEngine::release_held(DeliveryBatch& batch) {
  for (Submission& submission : std::exchange(held_, {})) start(std::move(submission), batch);
}

void ThreadedEngine::end_overdue_held(DeliveryBatch& batch) {
  std::erase_if(held_, [&](const Submission& held) {
    if (now() < held.request.deadline) return false;
    ledger_.end_unplanned(held.request.id, EndReason::kDeadline, {}, now(), batch);
    return true;
  });
}

// The plan that this takes runs here: the executor's thread has none and waits for one.
void ThreadedEngine::vacate() {
  StepSlot& slot = *free_slots_.back();
  if (!setup_.scheduler->vacate(slot.plan)) return;
  ledger_.planned(slot.plan, now());
  executor_.run(slot.plan, slot.outcome);
  setup_.scheduler->advance(slot.outcome.result);
}

Status ThreadedEngine::open_tier(const std::string& identity) {
  DI_ASSIGN_OR_RETURN(std::unique_ptr<KvStore> store, open_tier_store(setup_.options, identity));
  start_tier(std::move(store));
  return {};
}

void ThreadedEngine::close_tier() {
  const std::lock_guard lock(tier_mutex_);
  tier_.reset();
}

// Who waits for a tier that goes asks the one that comes.
void ThreadedEngine::hold_those_who_ask_the_tier() {
  held_.insert(held_.begin(), std::make_move_iterator(asking_.begin()), std::make_move_iterator(asking_.end()));
  asking_.clear();
}

Status ThreadedEngine::use_weights(PreparedWeights& weights, const std::string& identity, bool keep_records) {
  if (keep_records) {
    setup_.scheduler->clear_cache();
  } else {
    vacate();
  }
  setup_.model->exchange_weights(weights);
  if (wants_tier(setup_.options)) {
    hold_those_who_ask_the_tier();
    close_tier();
    if (const Status opened = open_tier(identity); !opened.ok()) {
      setup_.model->exchange_weights(weights);
      // Without a tier prefixes live as long as the pool keeps them.
      static_cast<void>(open_tier(setup_.cache_identity));
      return opened;
    }
    setup_.cache_identity = identity;
  }
  ledger_.set_weights_version(++counted_.weights_version);
  return {};
}

}  // namespace deepinfer
