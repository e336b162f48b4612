#include "load/load_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace deepinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What one sender sees.
struct Sender {
  Clock::time_point submitted, first, last;
  int64_t tokens = 0;
  std::vector<double> gaps;  // a gap for each token but the first
  RequestSummary summary;
};

void take(Sender& sender, const RequestUpdate& update) {
  const auto now = Clock::now();
  const auto tokens = static_cast<int64_t>(update.tokens.size());
  if (tokens > 0) {
    if (sender.tokens == 0) {
      sender.first = now;
      if (tokens > 1) sender.gaps.insert(sender.gaps.end(), static_cast<size_t>(tokens - 1), 0.0);
    } else {
      const double gap = std::chrono::duration<double>(now - sender.last).count() / static_cast<double>(tokens);
      sender.gaps.insert(sender.gaps.end(), static_cast<size_t>(tokens), gap);
    }
    sender.last = now;
    sender.tokens += tokens;
  }
  if (update.end != nullptr) sender.summary = *update.end;
}

void add(LoadResult& result, const Sender& sender) {
  ++result.requests;
  result.prompt_tokens += sender.summary.prompt_tokens;
  result.answer_tokens += sender.tokens;
  result.cached_tokens += sender.summary.cached_tokens;
  result.rounds += sender.summary.rounds;
  result.drafted += sender.summary.drafted;
  result.accepted += sender.summary.accepted;
}

}  // namespace

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<size_t>(std::ceil(q * static_cast<double>(values.size()))) - 1];
  };
  double sum = 0;
  for (const double value : values) sum += value;
  return {sum / static_cast<double>(values.size()), at(0.5), at(0.9), at(0.99)};
}

double LoadResult::tokens_per_round() const {
  return rounds == 0 ? 0 : static_cast<double>(answer_tokens - requests) / static_cast<double>(rounds);
}

Result<LoadResult> run_load(Engine& engine, std::vector<EngineRequest> requests, int64_t concurrency) {
  std::vector<Sender> senders(requests.size());
  std::mutex mutex;
  std::condition_variable some_ended;
  int64_t running = 0;
  const EngineStats before = engine.stats();
  const auto start = Clock::now();
  Status refused;
  for (size_t i = 0; i < requests.size() && refused.ok(); ++i) {
    {
      std::unique_lock lock(mutex);
      some_ended.wait(lock, [&] { return running < concurrency; });
      ++running;
    }
    Sender& sender = senders[i];
    sender.submitted = Clock::now();
    const auto on_update = [&, place = &sender](const RequestUpdate& update) {
      take(*place, update);
      if (update.end == nullptr) return;
      {
        const std::lock_guard lock(mutex);
        --running;
      }
      some_ended.notify_one();
    };
    refused = engine.submit(std::move(requests[i]), on_update).status();
  }
  engine.drain();
  LoadResult result;
  result.seconds = since(start);
  DI_RETURN_IF_ERROR(refused);
  result.concurrency = concurrency;
  std::vector<double> first, gaps, totals;
  double speeds = 0;
  for (const Sender& sender : senders) {
    if (sender.summary.reason == EndReason::kError) return sender.summary.failure;
    add(result, sender);
    first.push_back(std::chrono::duration<double>(sender.first - sender.submitted).count());
    totals.push_back(std::chrono::duration<double>(sender.summary.total).count());
    gaps.insert(gaps.end(), sender.gaps.begin(), sender.gaps.end());
    const double answering = std::chrono::duration<double>(sender.last - sender.first).count();
    if (answering > 0) speeds += static_cast<double>(sender.tokens - 1) / answering;
  }
  const EngineStats after = engine.stats();
  result.steps = after.steps - before.steps;
  result.step_seconds = std::chrono::duration<double>(after.executing - before.executing).count();
  result.plan_seconds = std::chrono::duration<double>(after.planning - before.planning).count();
  result.first_token = percentiles(std::move(first));
  result.inter_token = percentiles(std::move(gaps));
  result.request = percentiles(std::move(totals));
  result.user_tokens_per_second = speeds / static_cast<double>(senders.size());
  return result;
}

}  // namespace deepinfer::cli
