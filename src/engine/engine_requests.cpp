// The way of a request from submit() to the scheduler: checked by its caller's thread, then, on the planner's, waiting
// for its grammar and for the tier below the pool; and how it is cancelled.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "base/caught_exception.h"
#include "base/out_of_memory.h"
#include "engine/model_grammar.h"
#include "engine/request_check.h"
#include "engine/sampling_row.h"
#include "engine/threaded_engine.h"

namespace deepinfer {
namespace {

// Room for prefixes on their way to the tier below, at least: those of a few long prompts.
constexpr int64_t kLeastTierQueueBytes = int64_t{64} << 20;

}  // namespace

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

Result<GrammarCompiler*> ThreadedEngine::grammar_compiler() {
  const std::lock_guard lock(grammar_mutex_);
  if (!grammar_compiler_) {
    DI_ASSIGN_OR_RETURN(grammar_compiler_, make_grammar_compiler(setup_.options.model, vocabulary()));
  }
  return grammar_compiler_.get();
}

// --- The planner's part.

void ThreadedEngine::start(Submission submission, DeliveryBatch& batch) {
  if (submission.sequence) {
    schedule(std::move(submission), batch);
  } else {
    compiling_.push_back(std::move(submission));
  }
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

void ThreadedEngine::schedule(Submission submission, DeliveryBatch& batch) {
  if (tier_ && tier_->ask(submission.request, now())) {
    asking_.push_back(std::move(submission));
  } else {
    submit_to_scheduler(std::move(submission), batch);
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

}  // namespace deepinfer
