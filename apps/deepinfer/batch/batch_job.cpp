#include "batch/batch_job.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "batch/batch_line.h"
#include "serving/requests/request_run.h"
#include "text/json_text.h"

namespace deepinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string result_line(const std::string& key, const std::optional<std::string>& custom_id) {
  std::string line = result_head(key) + "\"custom_id\":";
  if (custom_id) {
    append_json_string(line, *custom_id);
  } else {
    line += "null";
  }
  return line;
}

std::string answered_line(const std::string& key, const std::string& custom_id, int status, std::string_view body) {
  return result_line(key, custom_id) +
         fmt::format(",\"response\":{{\"status_code\":{},\"request_id\":\"{}\",\"body\":", status, key)
             .append(body)
             .append("},\"error\":null}\n");
}

std::string error_line(const std::string& key, const BatchLineError& error) {
  std::string line = result_line(key, error.custom_id) + ",\"response\":null,\"error\":{\"code\":";
  append_json_string(line, error.code);
  append_json_string(line += ",\"message\":", error.message);
  return line + "}}\n";
}

// Requests that ended, told by the engine's output thread to the job's.
class Ended {
 public:
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
  void count_tokens(int64_t tokens) { tokens_.fetch_add(tokens, std::memory_order_relaxed); }
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<int64_t> numbers_;
  std::atomic<int64_t> tokens_{0};
};

// A line's request in the engine.
class LineRun final : public serving::RequestRun {
 public:
  LineRun(Engine& engine, int64_t number, Ended& ended) : RequestRun(engine), number_(number), ended_(ended) {}

  // After it was told as ended.
  const serving::RunSummary& summary() const { return summary_; }
  const std::string& body() const { return body_; }

 private:
  void accepted(bool) override {}
  void event(std::string_view, std::string_view) override {}
  void updated(int64_t tokens) override { ended_.count_tokens(tokens); }
  void ended(const serving::RunSummary& summary) override {
    summary_ = summary;
    if (summary.whole()) body_ = answer().object();
    ended_.add(number_);
  }

  int64_t number_;
  Ended& ended_;
  serving::RunSummary summary_;
  std::string body_;
};

// A line from its submission until its result is in the file.
struct Entry {
  std::string key, custom_id;
  std::shared_ptr<LineRun> running;  // null: finished
  std::string result;
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
      : input_(input), results_(results), engine_(engine), context_(context), limits_(limits), counts_(counts) {}

  // Its callbacks refer to it: none is left when it goes.
  ~Job() {
    for (const Entry& entry : entries_)
      if (entry.running != nullptr) entry.running->cancel();
    engine_.drain();
  }

  Status run(const std::atomic<bool>& interrupted, const std::function<void(const BatchCounts&)>& show) {
    while (!interrupted) {
      DI_RETURN_IF_ERROR(fill());
      collect(std::chrono::milliseconds(submitted_ > 0 ? 100 : 0));
      DI_RETURN_IF_ERROR(write_finished());
      counts_.answer_tokens = ended_.tokens();
      show(counts_);
      if (at_end_ && entries_.empty()) return results_.sync();
    }
    collect(std::chrono::milliseconds(0));
    DI_RETURN_IF_ERROR(write_finished());
    DI_RETURN_IF_ERROR(results_.sync());
    return {StatusCode::kCancelled, "interrupted"};
  }

 private:
  Status fill() {
    while (!at_end_ && submitted_ < limits_.submitted && static_cast<int64_t>(entries_.size()) < limits_.lines &&
           waiting_bytes_ < limits_.waiting_bytes) {
      DI_ASSIGN_OR_RETURN(std::optional<InputLine> line, input_.next());
      if (!line) {
        at_end_ = true;
        break;
      }
      start(std::move(*line));
    }
    return {};
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
    RequestOr<serving::PreparedRequest> prepared =
        prepare_request(request.protocol, request.body, identity_of(entry.key), context_.requests);
    if (const auto* error = std::get_if<RequestError>(&prepared)) return refuse(entry, *error);
    submit(entry, std::get<serving::PreparedRequest>(std::move(prepared)));
  }

  serving::RequestIdentity identity_of(const std::string& key) const {
    serving::RequestIdentity identity;
    identity.id = key;
    identity.seed = number_of(std::string_view(key).substr(0, 16)) ^ (context_.seed * 0x9E3779B97F4A7C15u);
    identity.random = number_of(std::string_view(key).substr(16));
    identity.created = context_.created;
    identity.completed = context_.created;
    return identity;
  }

  void submit(Entry& entry, serving::PreparedRequest prepared) {
    const auto number = first_ + static_cast<int64_t>(entries_.size()) - 1;
    entry.running = std::make_shared<LineRun>(engine_, number, ended_);
    if (const Status status = entry.running->submit(std::move(prepared)); !status.ok()) {
      entry.running = nullptr;
      return refuse(entry, serving::request_error(status));
    }
    ++submitted_;
  }

  // Turns requests that ended into results; waits for one at most so long.
  void collect(std::chrono::milliseconds wait) {
    for (const int64_t number : ended_.take(wait)) {
      Entry& entry = entries_[static_cast<size_t>(number - first_)];
      const std::shared_ptr<LineRun> running = std::exchange(entry.running, nullptr);
      --submitted_;
      const serving::RunSummary& summary = running->summary();
      counts_.prompt_tokens += summary.prompt_tokens;
      if (summary.whole()) {
        finish(entry, answered_line(entry.key, entry.custom_id, 200, running->body()), false);
      } else {
        refuse(entry, summary.reason == EndReason::kDeadline
                          ? RequestError{RequestError::Kind::kRequest, "the request's timeout has passed", 408}
                          : serving::request_error(summary.failure));
      }
    }
  }

  void refuse(Entry& entry, const RequestError& error) {
    finish(entry, answered_line(entry.key, entry.custom_id, error.http_status, error.body()), true);
  }

  void finish(Entry& entry, std::string result, bool error) {
    entry.result = std::move(result);
    waiting_bytes_ += static_cast<int64_t>(entry.result.size());
    if (error) ++counts_.errors;
  }

  Status write_finished() {
    std::string lines;
    int64_t written = 0;
    while (!entries_.empty() && entries_.front().running == nullptr) {
      lines += entries_.front().result;
      entries_.pop_front();
      ++first_;
      ++written;
    }
    waiting_bytes_ -= static_cast<int64_t>(lines.size());
    if (!lines.empty()) DI_RETURN_IF_ERROR(results_.append(lines));
    counts_.answered += written;
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
  int64_t submitted_ = 0;
  int64_t waiting_bytes_ = 0;
  bool at_end_ = false;
  Clock::time_point synced_ = Clock::now();

  Ended ended_;
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

}  // namespace deepinfer::cli
