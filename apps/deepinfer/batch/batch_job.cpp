#include "batch/batch_job.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

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

// A request in the engine.  Its callback runs on the engine's output thread, the rest on the job's.
struct Running {
  std::unique_ptr<BatchAnswer> answer;
  RequestSummary summary;
  bool over = false;
};

// A line from its submission until its result is in the file.
struct Entry {
  std::string key, custom_id;
  RequestId id = 0;
  std::shared_ptr<Running> running;  // null: finished
  std::string result;
};

class Job {
 public:
  Job(BatchInput& input, BatchResults& results, Engine& engine, const BatchContext& context, const BatchLimits& limits,
      BatchCounts& counts)
      : input_(input), results_(results), engine_(engine), context_(context), limits_(limits), counts_(counts) {}

  // Its callbacks refer to it: none is left when it goes.
  ~Job() {
    for (const Entry& entry : entries_)
      if (entry.running != nullptr) engine_.cancel(entry.id);
    engine_.drain();
  }

  Status run(const std::atomic<bool>& interrupted, const std::function<void(const BatchCounts&)>& show) {
    while (!interrupted) {
      DI_RETURN_IF_ERROR(fill());
      collect(std::chrono::milliseconds(submitted_ > 0 ? 100 : 0));
      DI_RETURN_IF_ERROR(write_finished());
      counts_.answer_tokens = tokens_.load(std::memory_order_relaxed);
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
    RequestOr<PreparedRequest> prepared = prepare_request(request, entry.key, context_);
    if (const auto* error = std::get_if<RequestError>(&prepared)) return refuse(entry, *error);
    submit(entry, std::get<PreparedRequest>(std::move(prepared)));
  }

  void submit(Entry& entry, PreparedRequest prepared) {
    entry.running = std::make_shared<Running>();
    entry.running->answer = std::move(prepared.answer);
    const auto number = first_ + static_cast<int64_t>(entries_.size()) - 1;
    const Result<RequestId> id = engine_.submit(
        std::move(prepared.request),
        [this, number, running = entry.running](const RequestUpdate& update) { take(number, *running, update); });
    if (!id.ok()) {
      entry.running = nullptr;
      return refuse(entry, request_error(id.status()));
    }
    entry.id = *id;
    ++submitted_;
  }

  void take(int64_t number, Running& running, const RequestUpdate& update) {
    tokens_.fetch_add(static_cast<int64_t>(update.tokens.size()), std::memory_order_relaxed);
    for (const GeneratedToken& token : update.tokens) {
      if (running.over) break;
      running.over = !running.answer->take(token);
      if (running.over && running.answer->stopped()) engine_.cancel(update.id);
    }
    if (update.end == nullptr) return;
    running.summary = *update.end;
    {
      const std::lock_guard lock(mutex_);
      ended_.push_back(number);
    }
    some_ended_.notify_one();
  }

  // Turns requests that ended into results; waits for one at most so long.
  void collect(std::chrono::milliseconds wait) {
    std::vector<int64_t> ended;
    {
      std::unique_lock lock(mutex_);
      some_ended_.wait_for(lock, wait, [this] { return !ended_.empty(); });
      ended.swap(ended_);
    }
    for (const int64_t number : ended) {
      Entry& entry = entries_[static_cast<size_t>(number - first_)];
      const std::shared_ptr<Running> running = std::move(entry.running);
      entry.running = nullptr;
      --submitted_;
      counts_.prompt_tokens += running->summary.prompt_tokens;
      const bool failed = running->summary.reason == EndReason::kError && !running->answer->stopped();
      if (failed) {
        refuse(entry, request_error(running->summary.failure));
      } else {
        finish(entry, answered_line(entry.key, entry.custom_id, 200, running->answer->body(running->summary)), false);
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

  std::atomic<int64_t> tokens_{0};
  std::mutex mutex_;
  std::condition_variable some_ended_;
  std::vector<int64_t> ended_;
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
