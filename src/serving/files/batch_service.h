// BatchService: batches of OpenAI's Batch API, from their creation to their output files.  Owned by the server's Api;
// some threads run some batches at the same time, each a batch job (serving/batch/batch_job.h) below the priority of
// everything else.  Thread-safe.
//
//   FILES/batches/ID.json      the record, written at each change of status
//   FILES/batches/ID.results   the job's results so far, in the order of the input
//
// A service that is opened on what another one left goes on with its batches: nothing is lost, nothing is run twice
// that was written.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "engine/engine.h"
#include "serving/files/batch_record.h"
#include "serving/files/file_store.h"
#include "serving/requests/id_source.h"
#include "serving/requests/prepared_request.h"

namespace deepinfer::serving {

// Whom a batch runs for.
struct BatchOwner {
  uint64_t tenant = 0;  // as RequestIdentity's
  int32_t highest_priority = kHighestPriority;
  std::function<bool()> may_start;      // another request; empty: always
  std::function<void(int64_t)> charge;  // tokens; may be empty.  Outlives the engine
};

// Below every request that is not of a batch.
inline constexpr int32_t kBatchPriority = -1'000'000;

struct BatchServiceOptions {
  RequestContext requests;
  int64_t most_submitted = 16;  // answers of all batches in the engine
  int concurrent = 4;           // batches that run; more wait
  int64_t window = 86400;       // seconds from creation to expiry
  // Nothing: such an owner is not known any more, and its batches rest.
  std::function<std::optional<BatchOwner>(const std::string& owner)> owner;
  std::function<int64_t()> clock;  // seconds since 1970
};

struct NewBatch {
  std::string input_file_id;
  std::string endpoint;
  Json metadata = nullptr;
};

class BatchService {
 public:
  // files and engine outlive it.  kIoError: the folder cannot be read.
  static Result<std::unique_ptr<BatchService>> open(Engine& engine, FileStore& files, BatchServiceOptions options);
  // Interrupts what runs; it goes on when another service is opened there.
  ~BatchService();

  // kInvalidArgument, kResourceExhausted: too many.
  Result<BatchRecord> create(const std::string& owner, NewBatch batch);
  std::optional<BatchRecord> find(const std::string& owner, const std::string& id) const;
  // The oldest first.
  std::vector<BatchRecord> list(const std::string& owner) const;
  // kNotFound; kInvalidArgument: it has ended already.
  Result<BatchRecord> cancel(const std::string& owner, const std::string& id);
  // The batch that is not done with this input file.
  std::optional<std::string> user_of(const std::string& file) const;
  // Not ended.
  int64_t unfinished() const;

  // Interrupts what runs.  Does not wait.
  void begin_close();

 private:
  struct Batch {
    BatchRecord record;                    // with mutex_
    bool running = false;                  // with mutex_
    std::atomic<bool> interrupted{false};  // by a cancellation, by expiry, or by the end of the service
  };
  enum class Outcome { kDone, kFailed, kExpired, kInterrupted };

  BatchService(Engine& engine, FileStore& files, BatchServiceOptions options);
  Status load();
  std::filesystem::path path(const std::string& id, const char* extension) const;
  // Changes the record and writes it.
  Status update(Batch& batch, FunctionRef<void(BatchRecord&)> change);
  BatchRecord record_of(const Batch& batch) const;

  void work();
  std::shared_ptr<Batch> next() const;  // with mutex_
  void run(Batch& batch);
  // kInterrupted: the service closes, or the batch was cancelled.
  Outcome validate(Batch& batch);
  Outcome answer(Batch& batch);
  Status expire_rest(const BatchRecord& record);
  void finish(Batch& batch, BatchStatus as);
  Status collect_files(BatchRecord& record);
  void fail(Batch& batch, Json errors);
  void fail(Batch& batch, const char* code, const std::string& message);

  Engine& engine_;
  FileStore& files_;
  const BatchServiceOptions options_;
  IdSource ids_;
  mutable std::mutex mutex_;
  std::condition_variable some_;
  std::map<std::string, std::shared_ptr<Batch>> batches_;  // by id
  std::atomic<bool> closing_{false};
  std::atomic<int64_t> running_{0};
  std::vector<std::thread> threads_;
};

}  // namespace deepinfer::serving
