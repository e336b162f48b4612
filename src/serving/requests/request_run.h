// RequestRun: one prepared request in the engine, with all its choices.  Derived classes say where events and ends go:
// lines of a batch job, answers of the server.  Made by std::make_shared: the engine keeps it until the last end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "serving/requests/prepared_request.h"

namespace deepinfer::serving {

// How all choices together ended.
struct RunSummary {
  EndReason reason = EndReason::kStop;  // of the first choice that failed, was cancelled or overdue; else of the last
  Status failure;                       // with EndReason::kError
  int64_t prompt_tokens = 0;            // of all prompts, each counted once
  int64_t answer_tokens = 0;
  int64_t cached_tokens = 0;          // of the prompt, as the first choice to end found them
  int64_t drafted = 0, accepted = 0;  // draft tokens
  Time queued{0}, first_token{0};     // since the submission; of the choice that was first

  // The answer is whole.
  bool whole() const { return reason == EndReason::kStop || reason == EndReason::kLength; }
};

class RequestRun : public std::enable_shared_from_this<RequestRun> {
 public:
  explicit RequestRun(Engine& engine) : engine_(engine) {}
  virtual ~RequestRun() = default;

  // Submits every choice.  An error: none runs, and nothing below is called.  Once; from any thread.
  Status submit(PreparedRequest prepared);
  // The run ends with kCancelled unless it ended before.  Thread-safe, also before and while submit() runs.
  void cancel();

 protected:
  // All below: one at a time, and none of them waits.  They run on the thread that submits (accepted, and event of the
  // opening events) and then on the engine's output thread.
  //
  // The engine has accepted the request.  sound: nothing can be wrong with it any more that its client has done.
  virtual void accepted(bool sound) = 0;
  virtual void event(std::string_view name, std::string_view data) = 0;
  // What the engine had to tell has become events.
  virtual void updated(int64_t tokens) = 0;
  // Once.  Where the answer is whole, its closing events have been given and answer().object() is there.
  virtual void ended(const RunSummary& summary) = 0;

  const RequestAnswer& answer() const { return *answer_; }

 private:
  void update(int choice, const RequestUpdate& update);
  void open(int64_t cached_tokens);
  void take_end(int choice, const RequestSummary& summary);

  Engine& engine_;
  std::mutex mutex_;  // what follows
  std::unique_ptr<RequestAnswer> answer_;
  std::vector<char> over_;  // by choice: later tokens are no part of it
  int open_choices_ = 0;
  int choices_ = 1;                     // of each prompt
  std::vector<int64_t> prompt_tokens_;  // by prompt, as far as known
  bool opened_ = false;
  bool refused_ = false;
  RunSummary summary_;

  std::atomic<bool> cancelled_{false};
  std::mutex ids_mutex_;
  std::vector<RequestId> ids_;
};

}  // namespace deepinfer::serving
