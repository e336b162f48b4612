#include "serving/batch/batch_job.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "serving/batch/batch_line.h"
#include "serving/batch/result_line.h"
#include "serving/requests/request_run.h"

namespace deepinfer::serving {
namespace {

using Clock = std::chrono::steady_clock;

// Requests that ended, told by the engine's output thread to the job's.
class Ended {
 public:
  // charge: is told tokens of answers; may be empty.
  explicit Ended(std::function<void(int64_t)> charge) : charge_(std::move(charge)) {}

  void add(int64_t number) {
    {
      const std::lock_guard lock(mutex_);
      numbers_.push_back(number);
    }
    some_.notify_one();
  }
  // Waits for one at most so long.
  std::vector<int64_t> take(std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    some_.wait_for(lock, wait, [this] { return !numbers_.empty(); });
    return std::exchange(numbers_, {});
  }
  void count_tokens(int64_t tokens) {
    tokens_.fetch_add(tokens, std::memory_order_relaxed);
    if (charge_) charge_(tokens);
  }
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<int64_t> numbers_;
  std::atomic<int64_t> tokens_{0};
  const std::function<void(int64_t)> charge_;
};

// A line's request in the engine.  It may outlive its job, which then has cancelled it.
class LineRun final : public RequestRun {
 public:
  LineRun(Engine& engine, int64_t number, std::shared_ptr<Ended> ended)
      : RequestRun(engine), number_(number), ended_(std::move(ended)) {}

  // After it was told as ended.
  const RunSummary& summary() const { return summary_; }
  const std::string& body() const { return body_; }

 private:
  void accepted(bool) override {}
  void event(std::string_view, std::string_view) override {}
  void updated(int64_t tokens) override { ended_->count_tokens(tokens); }
  void ended(const RunSummary& summary) override {
    summary_ = summary;
    if (summary.whole()) body_ = answer().object();
    ended_->add(number_);
  }

  int64_t number_;
  std::shared_ptr<Ended> ended_;
  RunSummary summary_;
  std::string body_;
};

// A line from its submission until its result is in the file.
struct Entry {
  std::string key, custom_id;
  std::shared_ptr<LineRun> running;
  int64_t answers = 0;  // in the engine
  std::string result;   // empty: not finished
  bool error = false;   // what the result is
};

uint64_t number_of(std::string_view digits) {
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

class Job {
 public:
  Job(BatchInput& input, BatchResults& results, Engine& engine, const BatchContext& context, const BatchLimits& limits,
      BatchCounts& counts)
      : input_(input),
        results_(results),
        engine_(engine),
        context_(context),
        limits_(limits),
        counts_(counts),
        ended_(std::make_shared<Ended>(context.charge)) {}

  ~Job() {
    for (const Entry& entry : entries_)
      if (entry.running != nullptr) entry.running->cancel();
  }

  Status run(const std::atomic<bool>& interrupted, const std::function<void(const BatchCounts&)>& show) {
    while (!interrupted) {
      DI_ASSIGN_OR_RETURN(const bool waits, fill());
      collect(std::chrono::milliseconds(waits ? 100 : 0));
      DI_RETURN_IF_ERROR(engine_failure());
      DI_RETURN_IF_ERROR(write_finished());
      counts_.answer_tokens = ended_->tokens();
      show(counts_);
      if (at_end_ && entries_.empty()) return results_.sync();
    }
    collect(std::chrono::milliseconds(0));
    DI_RETURN_IF_ERROR(engine_failure());
    DI_RETURN_IF_ERROR(write_finished());
    DI_RETURN_IF_ERROR(results_.sync());
    return {StatusCode::kCancelled, "interrupted"};
  }

 private:
  // What ended with the engine is no answer: another run of the job computes it.
  Status engine_failure() const {
    const EngineStats stats = engine_.stats();
    if (stats.state != EngineState::kFailed) return {};
    return {StatusCode::kInternal, "the engine has failed: " + stats.failure.message()};
  }

  // Starts what may start.  Whether there is something to wait for then: ends, or leave to start more.
  Result<bool> fill() {
    while (static_cast<int64_t>(entries_.size()) < limits_.lines && waiting_bytes_ < limits_.waiting_bytes) {
      const int64_t room = limits_.submitted() - submitted_;
      if (room <= 0) return true;
      if (held_) {
        // A request of more answers than may ever run runs alone.
        if (held_->answers() > room && submitted_ > 0) return true;
        submit(entries_.back(), std::move(*held_));
        held_.reset();
        continue;
      }
      if (at_end_) break;
      DI_ASSIGN_OR_RETURN(std::optional<InputLine> line, input_.next());
      if (line) {
        start(std::move(*line));
      } else {
        at_end_ = true;
      }
    }
    return submitted_ > 0;
  }

  void start(InputLine line) {
    entries_.push_back({});
    Entry& entry = entries_.back();
    entry.key = std::move(line.key);
    std::variant<BatchLine, BatchLineError> parsed =
        line.too_long
            ? BatchLineError{{}, "line_too_long", fmt::format("the line has more than {} bytes", kMostLineBytes)}
            : parse_batch_line(line.text);
    if (const auto* error = std::get_if<BatchLineError>(&parsed)) {
      finish(entry, error_line(entry.key, *error), true);
      return;
    }
    const BatchLine& request = std::get<BatchLine>(parsed);
    entry.custom_id = request.custom_id;
    RequestOr<PreparedRequest> prepared =
        prepare_request(request.protocol, request.body, identity_of(entry.key), context_.requests);
    if (const auto* error = std::get_if<RequestError>(&prepared)) return refuse(entry, *error);
    held_ = std::get<PreparedRequest>(std::move(prepared));
  }

  RequestIdentity identity_of(const std::string& key) const {
    RequestIdentity identity;
    identity.id = key;
    identity.seed = number_of(std::string_view(key).substr(0, 16)) ^ (context_.seed * 0x9E3779B97F4A7C15u);
    identity.random = number_of(std::string_view(key).substr(16));
    identity.created = context_.created;
    identity.completed = context_.created;
    identity.tenant = context_.tenant;
    identity.base_priority = context_.priority;
    identity.highest_priority = context_.highest_priority;
    return identity;
  }

  void submit(Entry& entry, PreparedRequest prepared) {
    const auto number = first_ + static_cast<int64_t>(entries_.size()) - 1;
    const int64_t answers = prepared.answers(), tokens = prepared.prompt_tokens();
    entry.running = std::make_shared<LineRun>(engine_, number, ended_);
    if (const Status status = entry.running->submit(std::move(prepared)); !status.ok()) {
      entry.running = nullptr;
      return refuse(entry, request_error(status));
    }
    if (context_.charge) context_.charge(tokens);
    entry.answers = answers;
    submitted_ += answers;
  }

  // Turns requests that ended into results; waits for one at most so long.
  void collect(std::chrono::milliseconds wait) {
    for (const int64_t number : ended_->take(wait)) {
      Entry& entry = entries_[static_cast<size_t>(number - first_)];
      const std::shared_ptr<LineRun> running = std::exchange(entry.running, nullptr);
      submitted_ -= entry.answers;
      const RunSummary& summary = running->summary();
      counts_.prompt_tokens += summary.prompt_tokens;
      if (summary.whole()) {
        finish(entry, answered_line(entry.key, entry.custom_id, 200, running->body()), false);
      } else {
        refuse(entry, summary.reason == EndReason::kDeadline
                          ? RequestError{RequestError::Kind::kRequest, "the request's timeout has passed", 408}
                          : request_error(summary.failure));
      }
    }
  }

  void refuse(Entry& entry, const RequestError& error) {
    finish(entry, answered_line(entry.key, entry.custom_id, error.http_status, error.body()), true);
  }

  void finish(Entry& entry, std::string result, bool error) {
    entry.result = std::move(result);
    waiting_bytes_ += static_cast<int64_t>(entry.result.size());
    entry.error = error;
  }

  Status write_finished() {
    std::string lines;
    int64_t written = 0, errors = 0;
    while (!entries_.empty() && !entries_.front().result.empty()) {
      lines += entries_.front().result;
      errors += entries_.front().error ? 1 : 0;
      entries_.pop_front();
      ++first_;
      ++written;
    }
    waiting_bytes_ -= static_cast<int64_t>(lines.size());
    if (!lines.empty()) DI_RETURN_IF_ERROR(results_.append(lines));
    counts_.answered += written;
    counts_.errors += errors;
    if (Clock::now() - synced_ < limits_.sync_interval) return {};
    synced_ = Clock::now();
    return results_.sync();
  }

  BatchInput& input_;
  BatchResults& results_;
  Engine& engine_;
  const BatchContext& context_;
  const BatchLimits& limits_;
  BatchCounts& counts_;

  std::deque<Entry> entries_;  // lines first_, first_ + 1, ... of this run
  int64_t first_ = 0;
  std::optional<PreparedRequest> held_;  // of the last entry, until there is room for it
  int64_t submitted_ = 0;                // answers in the engine
  int64_t waiting_bytes_ = 0;
  bool at_end_ = false;
  Clock::time_point synced_ = Clock::now();

  std::shared_ptr<Ended> ended_;
};

}  // namespace

Result<int64_t> resume(BatchInput& input, BatchResults& results) {
  int64_t answered = 0;
  for (;;) {
    DI_ASSIGN_OR_RETURN(const std::optional<std::string> head, results.next_head());
    DI_ASSIGN_OR_RETURN(std::optional<InputLine> line, input.next());
    const std::string wanted = line ? result_head(line->key) : std::string();
    if (!head) {
      DI_RETURN_IF_ERROR(results.cut_torn_line(wanted));
      if (line) input.put_back(std::move(*line));
      return answered;
    }
    ++answered;
    if (!line)
      return invalid_argument(
          fmt::format("the results file has more lines than the input ({}): is it another job's file, or has the input "
                      "changed?",
                      answered - 1));
    if (*head != wanted)
      return invalid_argument(fmt::format(
          "result {} does not belong to line {} of the input: is it another job's file, or has the input changed?",
          answered, line->number));
  }
}

Status run_batch(BatchInput& input, BatchResults& results, Engine& engine, const BatchContext& context,
                 const BatchLimits& limits, const std::atomic<bool>& interrupted, BatchCounts& counts,
                 const std::function<void(const BatchCounts&)>& show) {
  Job job(input, results, engine, context, limits, counts);
  return job.run(interrupted, show);
}

}  // namespace deepinfer::serving
