// What the threads of BatchService do with a batch: check its input, run it as a job, make its files.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>

#include "serving/batch/batch_job.h"
#include "serving/batch/batch_line.h"
#include "serving/batch/durable_file.h"
#include "serving/batch/result_line.h"
#include "serving/batch/result_split.h"
#include "serving/files/batch_check.h"
#include "serving/files/batch_service.h"

namespace deepinfer::serving {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kSyncInterval{2000};
constexpr int64_t kWaitingBytes = int64_t{64} << 20;
constexpr size_t kExpiredPiece = size_t{1} << 20;

}  // namespace

void BatchService::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::shared_ptr<Batch> batch;
    some_.wait(lock, [&] { return closing_ || (batch = next()) != nullptr; });
    if (closing_) return;
    batch->running = true;
    ++running_;
    lock.unlock();
    try {
      run(*batch);
    } catch (...) {
      fail(*batch, "server_error", "The server failed to run the batch.");
    }
    lock.lock();
    batch->running = false;
    --running_;
    if (engine_.stats().state == EngineState::kFailed) return;  // the next server goes on
  }
}

// Those that only have to be cleared up first; then of the owner with the fewest running, in the order of creation.
std::shared_ptr<BatchService::Batch> BatchService::next() const {
  std::map<std::string, int> running;
  for (const auto& [id, batch] : batches_)
    if (batch->running) ++running[batch->record.owner];
  std::shared_ptr<Batch> first;
  std::tuple<bool, int, int64_t, std::string> first_rank;
  for (const auto& [id, batch] : batches_) {
    const BatchRecord& record = batch->record;
    if (batch->running || has_ended(record.status) || !options_.owner(record.owner)) continue;
    const bool runs = record.status == BatchStatus::kValidating || record.status == BatchStatus::kInProgress;
    std::tuple<bool, int, int64_t, std::string> rank{runs, running[record.owner],
                                                     record.time(BatchStatus::kValidating).value_or(0), id};
    if (first != nullptr && first_rank <= rank) continue;
    first = batch;
    first_rank = std::move(rank);
  }
  return first;
}

void BatchService::run(Batch& batch) {
  Outcome outcome = Outcome::kDone;
  if (record_of(batch).status == BatchStatus::kValidating) outcome = validate(batch);
  if (outcome == Outcome::kDone && record_of(batch).status == BatchStatus::kInProgress) outcome = answer(batch);
  if (outcome == Outcome::kFailed) return;
  const BatchRecord record = record_of(batch);
  if (record.status == BatchStatus::kCancelling) return finish(batch, BatchStatus::kCancelled);
  if (record.status == BatchStatus::kFinalizing) return finish(batch, record.ends_as);
  if (outcome == Outcome::kDone) return finish(batch, BatchStatus::kCompleted);
  if (outcome == Outcome::kExpired) return finish(batch, BatchStatus::kExpired);
}

BatchService::Outcome BatchService::validate(Batch& batch) {
  const BatchRecord record = record_of(batch);
  Result<CheckedBatch> checked = check_batch(files_.content(record.input_file_id), record.endpoint, batch.interrupted);
  if (!checked.ok()) {
    if (checked.status().code() == StatusCode::kCancelled) return Outcome::kInterrupted;
    fail(batch, "invalid_input_file", "The input file cannot be read.");
    return Outcome::kFailed;
  }
  if (!checked->errors.empty()) {
    fail(batch, std::move(checked->errors));
    return Outcome::kFailed;
  }
  bool cancelled = false;
  const Status kept = update(batch, [&](BatchRecord& now) {
    now.total = checked->requests;
    cancelled = now.status == BatchStatus::kCancelling;
    if (!cancelled) now.enter(BatchStatus::kInProgress, options_.clock());
  });
  if (!kept.ok()) {
    fail(batch, "server_error", "The server could not keep the batch.");
    return Outcome::kFailed;
  }
  return cancelled ? Outcome::kInterrupted : Outcome::kDone;
}

BatchService::Outcome BatchService::answer(Batch& batch) {
  const BatchRecord record = record_of(batch);
  const std::optional<BatchOwner> owner = options_.owner(record.owner);
  if (!owner) return Outcome::kInterrupted;
  const fs::path results_path = path(record.id, ".results");
  bool expired = false;
  const auto run_job = [&]() -> Status {
    DI_ASSIGN_OR_RETURN(BatchInput input, BatchInput::open(files_.content(record.input_file_id)));
    DI_ASSIGN_OR_RETURN(const std::unique_ptr<BatchResults> results, BatchResults::open(results_path));
    const Result<int64_t> answered = resume(input, *results);
    if (!answered.ok()) return answered.status();
    DI_ASSIGN_OR_RETURN(const ResultCounts before, count_results(results_path));
    BatchContext context;
    context.requests = options_.requests;
    context.requests.draft_usage = false;
    context.seed = record.seed;
    context.created = record.time(BatchStatus::kInProgress).value_or(0);
    context.tenant = owner->tenant;
    context.priority = kBatchPriority;
    context.highest_priority = owner->highest_priority;
    context.charge = owner->charge;
    BatchLimits limits;
    limits.waiting_bytes = kWaitingBytes;
    limits.sync_interval = kSyncInterval;
    limits.submitted = [&]() -> int64_t {
      if (owner->may_start && !owner->may_start()) return 0;
      return std::max<int64_t>(1, options_.most_submitted / std::max<int64_t>(1, running_));
    };
    BatchCounts counts;
    return run_batch(input, *results, engine_, context, limits, batch.interrupted, counts, [&](const BatchCounts& now) {
      {
        const std::lock_guard lock(mutex_);
        batch.record.completed = before.answers + now.answered - now.errors;
        batch.record.failed = before.errors + now.errors;
      }
      if (options_.clock() < record.expires) return;
      expired = true;
      batch.interrupted = true;
    });
  };
  expired = options_.clock() >= record.expires;
  Status status = expired ? Status(StatusCode::kCancelled, "expired") : run_job();
  if (status.ok()) return Outcome::kDone;
  if (engine_.stats().state == EngineState::kFailed) return Outcome::kInterrupted;
  if (status.code() == StatusCode::kCancelled) {
    if (closing_ || record_of(batch).status == BatchStatus::kCancelling || !expired) return Outcome::kInterrupted;
    status = expire_rest(record);
    if (status.ok()) return Outcome::kExpired;
  }
  fail(batch, "server_error", "The server could not write the batch's results.");
  return Outcome::kFailed;
}

// Every request that has no result gets one that says so.
Status BatchService::expire_rest(const BatchRecord& record) {
  DI_ASSIGN_OR_RETURN(BatchInput input, BatchInput::open(files_.content(record.input_file_id)));
  DI_ASSIGN_OR_RETURN(const std::unique_ptr<BatchResults> results, BatchResults::open(path(record.id, ".results")));
  DI_RETURN_IF_ERROR(resume(input, *results).status());
  std::string lines;
  for (;;) {
    DI_ASSIGN_OR_RETURN(const std::optional<InputLine> line, input.next());
    if (line) {
      const std::variant<BatchLine, BatchLineError> parsed = parse_batch_line(line->text);
      const auto* request = std::get_if<BatchLine>(&parsed);
      BatchLineError error{request == nullptr ? std::nullopt : std::optional(request->custom_id), "batch_expired",
                           "This request could not be executed before the completion window expired."};
      lines += error_line(line->key, error);
    }
    if (lines.size() >= kExpiredPiece || !line) DI_RETURN_IF_ERROR(results->append(std::exchange(lines, {})));
    if (!line) return results->sync();
  }
}

// Again and again the same from kFinalizing or kCancelling on, should the server end meanwhile.
void BatchService::finish(Batch& batch, BatchStatus as) {
  BatchRecord made;
  const Status begun = update(batch, [&](BatchRecord& record) {
    if (record.status == BatchStatus::kInProgress) record.enter(BatchStatus::kFinalizing, options_.clock());
    record.ends_as = as;
    if (record.output_file_id.empty()) record.output_file_id = ids_.id("file-");
    if (record.error_file_id.empty()) record.error_file_id = ids_.id("file-");
    made = record;
  });
  if (!begun.ok() || !collect_files(made).ok())
    return fail(batch, "server_error", "The server could not write the batch's files.");
  const Status ended = update(batch, [&](BatchRecord& record) {
    record.output_file_id = made.output_file_id;
    record.error_file_id = made.error_file_id;
    record.completed = made.completed;
    record.failed = made.failed;
    record.enter(as, options_.clock());
  });
  std::error_code ignored;
  if (ended.ok()) fs::remove(path(made.id, ".results"), ignored);
}

// Makes the output and error files, where there is something for them.
Status BatchService::collect_files(BatchRecord& record) {
  const fs::path results = path(record.id, ".results");
  std::error_code ignored;
  ResultCounts counts;
  const auto keep = [&](std::string& id, int64_t lines, const fs::path& file, const char* name) -> Status {
    if (lines == 0) {
      id.clear();
      fs::remove(file, ignored);
      return {};
    }
    StoredFile about;
    about.id = id;
    about.owner = record.owner;
    about.filename = record.id + name;
    about.purpose = "batch_output";
    about.created = options_.clock();
    return files_.adopt(std::move(about), file).status();
  };
  const fs::path answers = path(record.id, ".answers"), errors = path(record.id, ".errors");
  if (fs::exists(results, ignored)) {
    DI_ASSIGN_OR_RETURN(counts, split_results(results, answers, errors));
  }
  DI_RETURN_IF_ERROR(keep(record.output_file_id, counts.answers, answers, "_output.jsonl"));
  DI_RETURN_IF_ERROR(keep(record.error_file_id, counts.errors, errors, "_error.jsonl"));
  record.completed = counts.answers;
  record.failed = counts.errors;
  return {};
}

void BatchService::fail(Batch& batch, Json errors) {
  // Where it cannot be kept it is over all the same, until the next start.
  const Status kept = update(batch, [&](BatchRecord& record) {
    record.errors = std::move(errors);
    record.output_file_id.clear();
    record.error_file_id.clear();
    record.enter(BatchStatus::kFailed, options_.clock());
  });
  (void)kept;
}

void BatchService::fail(Batch& batch, const char* code, const std::string& message) {
  Json error = Json::object();
  error["code"] = code;
  error["line"] = nullptr;
  error["message"] = message;
  error["param"] = nullptr;
  fail(batch, Json::array({std::move(error)}));
}

}  // namespace deepinfer::serving
