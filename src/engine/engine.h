// Engine: many requests at once, one answer each.  What batch jobs, the Python package and the server stand on.
//
//   callers ──submit──► planner thread ──plans──► executor thread (owns the model) ──outcomes──► planner ──► output
//   thread
//
// While step n runs, step n + 1 is planned; updates are delivered on the output thread, in order for each request.
// A request's tokens and log-probabilities are bit for bit those it would have alone (docs/architecture.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/generator.h"
#include "engine/metrics/engine_observer.h"
#include "engine/speculation/draft_planner.h"
#include "engine/tiers/file_io.h"
#include "engine/tiers/kv_store.h"
#include "engine/tiers/prefix_tier.h"
#include "engine/token_choices.h"
#include "grammar/grammar_spec.h"
#include "models/choice_sink.h"
#include "models/weight_placement.h"
#include "ops/ops.h"
#include "scheduling/request.h"
#include "scheduling/scheduler.h"

namespace deepinfer {

class Model;
struct StepLimits;

struct EngineOptions {
  std::filesystem::path model;                    // folder with config.json, tokenizer.json, safetensors
  int64_t max_context = 0;                        // tokens; 0: the model's own, or what the cache holds if that is less
  int64_t cache_bytes = int64_t{1} << 30;         // for cached records, snapshots included; state slots come on top.
                                                  // 0: what is left of a device's memory (Memory::room())
  int max_sequences = 32;                         // running at the same time
  int64_t step_rows = 512;                        // most rows of a step
  std::chrono::milliseconds decode_latency{250};  // bound on a step's time while something decodes
  WeightPlacement placement;                      // where a device has a choice; never changes an answer
  bool prefix_cache = true;
  int64_t early_snapshot_interval = 4096;  // tokens; a multiple of 128
  DraftSchedule draft_schedule = DraftSchedule::kFresh;
  // Where the measured times of steps are kept from start to start; empty: they are measured at every start.
  std::filesystem::path step_cost_file;
  // Prefixes that outlive the engine, in a folder of this name (docs/kv-tiers.md); empty: none.
  std::filesystem::path kv_disk_folder;
  int64_t kv_disk_bytes = int64_t{10} << 30;  // of all models and builds in the folder; at least kLeastKvDiskBytes
  KvDiskIo kv_disk_io = KvDiskIo::kAuto;      // kUring: an error where io_uring is not permitted
  std::chrono::milliseconds kv_tier_patience{2000};  // a request waits no longer for the tier, and then computes
  // Prefixes kept in host memory below the pool, above the folder where there is one: what was evicted, and what
  // preempted requests have lost.  0: none; else a snapshot and a block at least.
  int64_t kv_host_bytes = 0;
  // In place of a folder: makes the tier's store for records of an identity (tier_identity.h).
  std::function<Result<std::unique_ptr<KvStore>>(const std::string& identity)> kv_store;
  // In place of the folder's: makes the model (tests and benchmarks).  It prepares the backend for the limits.
  std::function<Result<std::unique_ptr<Model>>(const StepLimits& limits, Ops& ops)> make_model;
  std::vector<std::shared_ptr<EngineObserver>> observers;  // called on the engine's threads
};

// What the later half of the layers sees of a prompt.
enum class PrefixReplay : uint8_t {
  kExact,  // everything that can reach the answer
  // Its last replay_tokens tokens only (v41-model.md 3.3): long prompts take less time, and the answer is an
  // approximation. It still depends on the request alone, but equals no other answer: not an exact one, not one with
  // other replay_tokens.  Its records are kept from everyone else.
  kBounded,
};

struct EngineRequest {
  std::vector<int32_t> prompt;
  GenerationParams params;
  int64_t min_tokens = 0;                       // stop tokens cannot be drawn before so many tokens
  std::vector<int32_t> allowed_tokens;          // nothing else is drawn; empty: everything may be
  std::vector<std::vector<int32_t>> bad_words;  // sequences of tokens that never occur in the answer
  // Teacher forcing: token i of the answer, whatever the logits say; -1 and past the end: drawn.  Its log-probability
  // is reported as that of a drawn token, -infinity where filters or masks exclude it.
  std::vector<int32_t> forced_tokens;
  // The answer is derived from this grammar, which is compiled before the request is planned.
  std::optional<GrammarSpec> grammar;
  int32_t prompt_logprobs = -1;  // of the prompt's tokens but the first, as GenerationParams::logprobs
  uint32_t choice = 0;           // of several answers to one prompt: each has its own noise (stream 256 * choice)
  int32_t priority = 0;          // the higher goes first
  std::chrono::milliseconds timeout{0};  // from submission; 0: none
  uint64_t cache_salt = 0;               // prefixes are shared among requests with the same salt only
  bool use_prefix_cache = true;
  PrefixReplay prefix_replay = PrefixReplay::kExact;
  int64_t replay_tokens = kDefaultReplayTokens;  // kBounded only; at least the model's window and drafts
  // Which experts, and which cached rows, each token chose: with the updates.  All tokens of such a request are
  // computed for it; none of its prompt comes from the prefix cache.
  bool capture_routed_experts = false;
  bool capture_selected_indices = false;
};

// How a request ended.
struct RequestSummary {
  EndReason reason = EndReason::kStop;
  Status failure;  // with EndReason::kError
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
  int64_t cached_tokens = 0;          // of the prompt, taken from the prefix cache
  int64_t tier_tokens = 0;            // of these, brought into it from the tier below for this request
  int64_t recomputed_tokens = 0;      // after preemptions
  int64_t swapped_tokens = 0;         // after preemptions brought back from the tier below instead
  int64_t rounds = 0;                 // decode steps
  int64_t drafted = 0, accepted = 0;  // draft tokens verified, and delivered
  AnswerMarks marks;
  Time queued{0};       // submission to first plan
  Time first_token{0};  // submission to first token; 0: there was none
  Time total{0};
  int64_t weights_version = 0;  // of the weights that its last step ran with
};

struct RequestUpdate {
  RequestId id = 0;
  std::span<const GeneratedToken> tokens;  // may be empty at the end
  // Of the prompt's tokens 1, 2, ..., with the first update, where they were asked for.
  std::span<const GeneratedToken> prompt_logprobs;
  const RequestSummary* end = nullptr;  // not null exactly once, with the last update
  // An update with tokens is of one step: the draft tokens that it verified, and the weights that it ran with.
  int64_t drafted = 0;
  int64_t weights_version = 0;
  int64_t cached_tokens = 0;  // as RequestSummary's
  // Of the tokens computed since the last update, where asked for: of all tokens but the newest one of this update.
  const TokenChoices* choices = nullptr;
};
// Called on the output thread; should not block: the other requests' updates wait behind it.  Where it throws, its
// request is cancelled and hears nothing more but its end, which is kError with what was thrown.
using RequestCallback = std::function<void(const RequestUpdate&)>;

// What becomes of the requests that are there when an engine pauses, sleeps or gets other weights.  Later ones wait.
enum class PauseMode : uint8_t {
  kDrain,  // they go on until they end
  kKeep,   // they stop between two steps and go on afterwards
};

enum class EngineState : uint8_t {
  kRunning,
  kPaused,  // requests are accepted and wait
  kAsleep,  // paused, and the memory of the cache has been given back
  // What was accepted has ended or is about to, and nothing else is accepted: submit() and stats() say why.  There is
  // no way back: destroy the engine, and open another one, which can be done in the same process.
  kFailed,
};

std::string_view to_string(EngineState state);

struct WeightUpdate {
  std::filesystem::path folder;  // config.json and safetensors
  PauseMode mode = PauseMode::kDrain;
  // With kKeep: requests under way go on with the records that the old weights made of their tokens, which costs no
  // time; false: all of it is computed again.  Of such a request nothing is promised: its answer is neither that of the
  // old weights nor that of the new ones, and a preemption may change it.
  bool keep_records = false;
};

// Where prefixes are cached, for Engine::forget_prefixes().
struct PrefixTiers {
  bool device = true;  // the pool
  bool host = true;    // host memory below it, where there is one
};

struct EngineStats {
  SchedulerStats scheduler;
  int64_t steps = 0;
  int64_t drafted = 0, accepted = 0;
  Time executing{0};  // in steps
  Time planning{0};   // by the planner thread
  PrefixTierStats tier;
  EngineState state = EngineState::kRunning;
  Status failure;  // with EngineState::kFailed: why
  int64_t weights_version = 0;
};

// One line of the memory plan.
struct MemoryPlanLine {
  std::string name;
  int64_t bytes = 0;
  std::string detail;
};

class Engine {
 public:
  // ops: the backend, made by the executable.  All memory is allocated here.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options, std::unique_ptr<Ops> ops);
  // Cancels what runs, delivers the ends and stops.
  virtual ~Engine() = default;

  // Accepts a request or says what is wrong with it (field, value, range), or with the engine.  Thread-safe.
  virtual Result<RequestId> submit(EngineRequest request, RequestCallback on_update) = 0;
  // Takes effect within one step; the request's last update says kCancelled unless it ended before.  Thread-safe.
  virtual void cancel(RequestId id) = 0;
  // Waits until every accepted request has ended, its last update was delivered and no step is planned or runs any
  // more: what goes wrong with these requests has shown by then.  False, with requests left, when the engine is paused
  // or asleep, or comes to be: nothing ends until somebody calls resume() or wake_up().
  virtual bool drain() = 0;

  // The following wait until no step runs and all updates up to then have been delivered.  Callable from every thread
  // but those of the engine (callbacks, observers), which would wait for themselves; one at a time.  kInvalidArgument
  // for these mistakes and for a wrong order, kCancelled when the engine closes meanwhile.
  //
  // Answers have the bits that they would have without them (but for other weights).  Time goes on: requests end with
  // kDeadline while the engine is paused, and can be cancelled.
  virtual Status pause(PauseMode mode) = 0;
  virtual Status resume() = 0;  // a paused engine
  // Pauses, forgets all cached prefixes and gives the memory of the cache back to the system.  Requests that were kept
  // are computed again from their first token after wake_up(), which goes back to running or paused, as it was.
  virtual Status sleep(PauseMode mode) = 0;
  virtual Status wake_up() = 0;
  // Goes over to the weights of another folder, whose configuration, tokenizer and tensors (names, dtypes, shapes) must
  // be those of the loaded ones; else the error names the first that differs, and the old weights go on.  The engine
  // stops meanwhile as in pause(mode) and is afterwards what it was before.  All prefixes are forgotten; in the tier
  // below, records are known by their weights.  The files are mapped: they must not be written to afterwards.
  virtual Status update_weights(const WeightUpdate& update) = 0;
  // Forgets what is cached there; what lies in a folder stays.  Requests under way stop between two steps and go on
  // with their own records; where the pool is emptied, they leave nothing in it.
  virtual Status forget_prefixes(PrefixTiers tiers) = 0;

  // What the destructor begins with, for engines with more than one owner: cancels what runs, refuses new requests and
  // ends the waits of the calls above.  Does not wait.
  virtual void begin_close() = 0;

  virtual EngineStats stats() const = 0;
  virtual const std::vector<MemoryPlanLine>& memory_plan() const = 0;
  virtual int32_t vocabulary() const = 0;
  virtual int32_t eos_token() const = 0;
  virtual int64_t max_context() const = 0;
  virtual ChoiceCounts choice_counts() const = 0;  // of a token in TokenChoices
  virtual std::string_view backend_name() const = 0;
};

}  // namespace deepinfer
