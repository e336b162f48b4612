#include "engine/engine_generator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

namespace deepinfer {
namespace {

// cancel() is safe in a signal handler, so it wakes nobody.
constexpr std::chrono::milliseconds kCancelPoll{20};

// What the engine's output thread hands to the thread in generate().
class Updates {
 public:
  struct Update {
    std::vector<GeneratedToken> tokens;
    std::optional<RequestSummary> end;
  };

  void add(const RequestUpdate& update) {
    Update copy{{update.tokens.begin(), update.tokens.end()}, std::nullopt};
    if (update.end != nullptr) copy.end = *update.end;
    {
      const std::lock_guard lock(mutex_);
      updates_.push_back(std::move(copy));
    }
    ready_.notify_one();
  }
  // Nothing when there was none for a while.
  std::optional<Update> next() {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, kCancelPoll, [this] { return !updates_.empty(); })) return std::nullopt;
    Update update = std::move(updates_.front());
    updates_.pop_front();
    return update;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Update> updates_;
};

FinishReason finish_of(EndReason reason) {
  switch (reason) {
    case EndReason::kLength:
      return FinishReason::kLength;
    case EndReason::kCancelled:
    case EndReason::kDeadline:
      return FinishReason::kCancelled;
    case EndReason::kStop:
    case EndReason::kError:
      break;
  }
  return FinishReason::kStop;
}

double seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

class EngineGenerator final : public Generator {
 public:
  explicit EngineGenerator(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  Result<GenerationResult> generate(std::span<const int32_t> prompt, const GenerationParams& params,
                                    const GrammarSpec* grammar,
                                    FunctionRef<Taken(std::span<const GeneratedToken>)> on_tokens) override {
    cancelled_.store(false, std::memory_order_relaxed);
    EngineRequest request;
    request.prompt.assign(prompt.begin(), prompt.end());
    request.params = params;
    if (grammar != nullptr) request.grammar = *grammar;
    Updates updates;
    DI_ASSIGN_OR_RETURN(const RequestId id,
                        engine_->submit(std::move(request), [&](const RequestUpdate& update) { updates.add(update); }));

    GenerationResult result;
    bool wanted = true, asked_to_end = false;
    std::optional<RequestSummary> end;
    while (!end) {
      const bool cancelled = cancelled_.load(std::memory_order_relaxed);
      if ((cancelled || !wanted) && !std::exchange(asked_to_end, true)) engine_->cancel(id);
      std::optional<Updates::Update> update = updates.next();
      if (!update) continue;
      end = std::move(update->end);
      if (!wanted || update->tokens.empty()) continue;  // decided before the engine knew
      const Taken taken = on_tokens(update->tokens);
      const size_t count = std::min(taken.tokens, update->tokens.size());
      wanted = taken.more && count == update->tokens.size();
      result.tokens.insert(result.tokens.end(), std::make_move_iterator(update->tokens.begin()),
                           std::make_move_iterator(update->tokens.begin() + static_cast<std::ptrdiff_t>(count)));
    }
    engine_->drain();  // the callback has been given back
    if (!end->failure.ok() && wanted) return end->failure;
    // The engine's reason stands where the last token taken is the last of the answer.
    const bool whole = end->reason == EndReason::kLength && end->answer_tokens == std::ssize(result.tokens);
    result.finish = wanted || whole ? finish_of(end->reason) : FinishReason::kStop;
    result.prompt_tokens = end->prompt_tokens;
    result.reused_tokens = end->cached_tokens;
    result.disk_tokens = end->tier_tokens;
    result.marks = end->marks;
    result.rounds = end->rounds;
    result.drafted = end->drafted;
    result.accepted = end->accepted;
    const Time first = end->first_token == Time{0} ? end->total : end->first_token;
    result.prefill_seconds = seconds(first);
    result.decode_seconds = seconds(end->total - first);
    return result;
  }

  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  int32_t vocabulary() const override { return engine_->vocabulary(); }
  int64_t max_context() const override { return engine_->max_context(); }
  std::string_view backend_name() const override { return engine_->backend_name(); }

 private:
  std::unique_ptr<Engine> engine_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace

std::unique_ptr<Generator> make_engine_generator(std::unique_ptr<Engine> engine) {
  return std::make_unique<EngineGenerator>(std::move(engine));
}

}  // namespace deepinfer
