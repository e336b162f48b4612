#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <unordered_set>
#include <utility>

#include "base/caught_exception.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "engine/model_grammar.h"
#include "engine/request_check.h"
#include "engine/sampling_row.h"
#include "engine/threaded_engine.h"

namespace deepinfer {
namespace {

// Room for prefixes on their way to the tier below, at least: those of a few long prompts.
constexpr int64_t kLeastTierQueueBytes = int64_t{64} << 20;

// With so few running a plan takes less than waking the planner.
constexpr int64_t kFewSequences = 16;

Status engine_closes() {
  return {StatusCode::kCancelled, "the engine is closing"};
}

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

void ThreadedEngine::begin_close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  lifecycle_.close(engine_closes());
  work_.notify_one();
}

void ThreadedEngine::cancel(RequestId id) {
  for (;;) {
    try {
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) inbox_.cancellations.push_back(id);
      break;
    } catch (const std::bad_alloc&) {  // for a few bytes: it will not last, or the engine fails over it
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  work_.notify_one();
}

Result<RequestId> ThreadedEngine::submit(EngineRequest request, RequestCallback on_update) {
  return or_out_of_memory([&] { return fmt::format("a request of {} prompt tokens", request.prompt.size()); },
                          [&] { return accept(std::move(request), std::move(on_update)); });
}

Result<RequestId> ThreadedEngine::accept(EngineRequest request, RequestCallback on_update) {
  const ModelInfo& model = setup_.model->info();
  DI_RETURN_IF_ERROR(check_request(request.prompt, request.params, model, max_context()));
  DI_RETURN_IF_ERROR(check_rules(request, model));
  const int64_t room = max_context() - static_cast<int64_t>(request.prompt.size());
  GenerationParams& params = request.params;
  params.max_tokens = params.max_tokens == 0 ? room : std::min(params.max_tokens, room);
  if (params.draft_tokens < 0) params.draft_tokens = model.draft_tokens;

  Submission submission;
  submission.at = now();
  Request& r = submission.request;
  r.id = next_id_.fetch_add(1, std::memory_order_relaxed);
  r.max_tokens = params.max_tokens;
  r.drafts = params.draft_tokens;
  r.priority = request.priority;
  if (request.timeout.count() > 0) r.deadline = submission.at + request.timeout;
  r.salt = request.cache_salt;
  r.reuse_prefix = r.publish_prefix = setup_.options.prefix_cache && request.use_prefix_cache;
  if (request.capture_routed_experts || request.capture_selected_indices) r.reuse_prefix = false;
  if (request.prompt_logprobs >= 0) r.logits_from = 0;
  submission.marks.rejection_sampled = tests_drafts(params, params.draft_tokens);
  // Where drafts are a part of the answer they must be those of a fresh start: with their whole context.
  if (submission.marks.rejection_sampled) {
    const int64_t last = static_cast<int64_t>(request.prompt.size()) - 1;
    r.reuse_below = setup_.model->draft_context_start({RowRule::Kind::kExact, last});
  }
  if (request.prefix_replay == PrefixReplay::kBounded) {
    // Exact records are good for what comes before the rows that are replayed; its own are not, for anybody.
    const int64_t from = replay_from(request);
    submission.marks.bounded_prefix = from > 0;
    r.reuse_below = from;
    r.publish_prefix = r.publish_prefix && from == 0;
  }
  r.prompt = request.prompt;
  const RequestId id = r.id;
  submission.on_update = std::move(on_update);
  for (const auto& observer : setup_.options.observers) observer->accepted(id, request, submission.at);
  if (request.grammar) {
    DI_ASSIGN_OR_RETURN(GrammarCompiler * compiler, grammar_compiler());
    submission.grammar = compiler->compile(*request.grammar);
    submission.wanted = std::move(request);
  } else {
    submission.sequence = std::make_unique<RunningSequence>(id, std::move(request), model, std::nullopt);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return copy_without_fail(failure_);
    if (closing_) return engine_closes();
    inbox_.submissions.push_back(std::move(submission));
    ++undelivered_;
  }
  work_.notify_one();
  return id;
}

bool ThreadedEngine::failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.ok();
}

void ThreadedEngine::break_down(std::string_view doing) noexcept {
  Status why = caught_exception(doing);
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
      return break_down("the engine has failed: planning");
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
    scheduler.check_integrity();
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
    break_down("the engine has failed: planning");
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

void ThreadedEngine::start(Submission submission, DeliveryBatch& batch) {
  if (submission.sequence) {
    schedule(std::move(submission), batch);
  } else {
    compiling_.push_back(std::move(submission));
  }
}

void ThreadedEngine::start_tier(std::unique_ptr<KvStore> store) {
  TieredPrefixes::Options options;
  options.patience = setup_.options.kv_tier_patience;
  options.most_queued_bytes = std::max(kLeastTierQueueBytes, setup_.options.cache_bytes / 4);
  const auto wake = [this] {
    {
      const std::lock_guard lock(mutex_);
      inbox_.tier_answers = true;
    }
    work_.notify_one();
  };
  const std::lock_guard lock(tier_mutex_);
  tier_ = std::make_unique<TieredPrefixes>(*setup_.scheduler, *setup_.memory, std::move(store), *setup_.rule, options,
                                           wake);
}

void ThreadedEngine::take_from_tier(DeliveryBatch& batch) {
  if (!tier_) return;
  ready_.clear();
  tier_->take_ready(now(), ready_);
  for (const TieredPrefixes::Ready& ready : ready_) {
    const auto asking = std::find_if(asking_.begin(), asking_.end(),
                                     [&](const Submission& s) { return s.request.id == ready.request; });
    if (asking == asking_.end()) {  // preempted
      setup_.scheduler->tier_answered(ready.request, ready.to);
      continue;
    }
    Submission submission = std::move(*asking);
    asking_.erase(asking);
    ledger_.brought(ready.request, ready.from, ready.to);
    submit_to_scheduler(std::move(submission), batch);
  }
}

void ThreadedEngine::schedule(Submission submission, DeliveryBatch& batch) {
  if (tier_ && tier_->ask(submission.request, now())) {
    asking_.push_back(std::move(submission));
  } else {
    submit_to_scheduler(std::move(submission), batch);
  }
}

void ThreadedEngine::submit_to_scheduler(Submission submission, DeliveryBatch& batch) {
  const RequestId id = submission.request.id;
  const size_t before = additions_.size();
  Status status = or_out_of_memory([&] { return fmt::format("request {} in the scheduler", id); },
                                   [&] {
                                     additions_.emplace_back();
                                     return setup_.scheduler->submit(std::move(submission.request));
                                   });
  if (status.ok()) {
    additions_.back() = std::move(submission.sequence);
  } else {
    additions_.resize(before);
    ledger_.end_unplanned(id, EndReason::kError, std::move(status), now(), batch);
  }
}

void ThreadedEngine::cancel_known(RequestId id, DeliveryBatch& batch) {
  const auto is_it = [&](const Submission& submission) { return submission.request.id == id; };
  if (std::erase_if(held_, is_it) + std::erase_if(compiling_, is_it) + std::erase_if(asking_, is_it) == 0) {
    setup_.scheduler->cancel(id);
    return;
  }
  if (tier_) tier_->forget(id);
  ledger_.end_unplanned(id, EndReason::kCancelled, {}, now(), batch);
}

void ThreadedEngine::take_compiled(DeliveryBatch& batch) {
  for (size_t i = 0; i < compiling_.size();) {
    Submission& submission = compiling_[i];
    const RequestId id = submission.request.id;
    if (now() >= submission.request.deadline) {
      ledger_.end_unplanned(id, EndReason::kDeadline, {}, now(), batch);
    } else if (!submission.grammar.ready()) {
      ++i;
      continue;
    } else {
      const auto begin = [&]() -> Status {
        DI_ASSIGN_OR_RETURN(SharedGrammar grammar, submission.grammar.result());
        DI_ASSIGN_OR_RETURN(GrammarMatcher matcher,
                            GrammarMatcher::create(std::move(grammar), *submission.wanted.grammar,
                                                   submission.wanted.params.stop_tokens));
        submission.sequence = std::make_unique<RunningSequence>(id, std::move(submission.wanted), setup_.model->info(),
                                                                std::move(matcher));
        return {};
      };
      if (const Status begun = or_out_of_memory([] { return "its matcher"; }, begin); begun.ok()) {
        schedule(std::move(submission), batch);
      } else {
        ledger_.end_unplanned(id, EndReason::kError, begun.with_context("grammar"), now(), batch);
      }
    }
    compiling_.erase(compiling_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Result<GrammarCompiler*> ThreadedEngine::grammar_compiler() {
  const std::lock_guard lock(grammar_mutex_);
  if (!grammar_compiler_) {
    DI_ASSIGN_OR_RETURN(grammar_compiler_, make_grammar_compiler(setup_.options.model, vocabulary()));
  }
  return grammar_compiler_.get();
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
      run_step(*next);
    } catch (...) {
      return break_down("the engine has failed: between two steps");
    }
    if (!plan_between_steps()) work_.notify_one();
  }
}

void ThreadedEngine::run_step(StepSlot& slot) {
  for (auto& sequence : slot.additions) executor_.add(std::move(sequence));
  for (const RequestId id : slot.removals) executor_.remove(id);
  slot.times.run_start = now();
  executor_.run(slot.plan, slot.outcome);
  slot.times.run_end = now();
  const std::lock_guard lock(mutex_);
  inbox_.outcomes.push_back(&slot);
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
