#include "python_engine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include "backends/cpu/peak_rate.h"
#include "backends/named_backend.h"
#include "engine/metrics/stats_line.h"
#include "engine/request_log/request_log.h"
#include "ops/ops.h"

namespace deepinfer::python {
namespace {

ThreadPoolOptions threads_of(const PythonEngineOptions& options) {
  ThreadPoolOptions threads;
  threads.threads = options.threads;
  return threads;
}

Result<std::unique_ptr<Ops>> make_ops(const PythonEngineOptions& options) {
  if (options.backend != "auto" && !is_backend_name(options.backend))
    return invalid_argument("backend is '" + options.backend + "'; allowed: 'auto', 'cpu', 'cuda', 'reference'");
  BackendOptions backend;
  if (options.backend != "auto") backend.name = options.backend;
  backend.threads = threads_of(options);
  backend.gpu_memory_utilization = options.gpu_memory_utilization;
  return make_named_backend(backend, "backend");
}

void print_line(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// Shorter prompts have no whole block with a snapshot to share.
constexpr size_t kSharedPrompt = 2 * 128;

Status number(PendingAnswer& answer, const Result<RequestId>& id) {
  if (!id.ok()) return id.status();
  answer.id = static_cast<int64_t>(*id);
  return {};
}

Status send(Engine& engine, const Tokenizer& tokenizer, const TextRequest& request,
            const std::shared_ptr<PendingAnswer>& answer) {
  return number(
      *answer, submit_text(engine, tokenizer, request, [answer](const TextUpdate& update) { answer->update(update); }));
}

// The choices 1, 2, ... of a request, sent from the output thread once the first has its prompt computed.  That thread
// lives inside the engine, so the engine is there.
class LaterChoices {
 public:
  LaterChoices(Engine& engine, const Tokenizer& tokenizer, TextRequest request,
               std::vector<std::shared_ptr<PendingAnswer>> answers)
      : engine_(engine), tokenizer_(tokenizer), request_(std::move(request)), answers_(std::move(answers)) {}

  void send_all() {
    if (std::exchange(sent_, true)) return;
    const auto waited = std::chrono::steady_clock::now() - submitted_;
    std::chrono::milliseconds& timeout = request_.request.timeout;
    const bool late = timeout.count() > 0 && waited >= timeout;
    if (timeout.count() > 0 && !late)
      timeout -= std::min(timeout - std::chrono::milliseconds(1),
                          std::chrono::duration_cast<std::chrono::milliseconds>(waited));
    for (size_t i = 1; i < answers_.size(); ++i) {
      PendingAnswer& answer = *answers_[i];
      request_.request.choice = static_cast<uint32_t>(i);
      if (answer.cancelled) {
        answer.end_unsent(EndReason::kCancelled, {});
      } else if (late) {
        answer.end_unsent(EndReason::kDeadline, {});
      } else if (const Status status = send(engine_, tokenizer_, request_, answers_[i]); !status.ok()) {
        const bool closing = status.code() == StatusCode::kCancelled;
        answer.end_unsent(closing ? EndReason::kCancelled : EndReason::kError, status);
      } else if (answer.cancelled) {
        engine_.cancel(static_cast<RequestId>(answer.id.load()));
      }
    }
    answers_.clear();
  }

 private:
  Engine& engine_;
  const Tokenizer& tokenizer_;
  TextRequest request_;
  std::vector<std::shared_ptr<PendingAnswer>> answers_;
  const std::chrono::steady_clock::time_point submitted_ = std::chrono::steady_clock::now();
  bool sent_ = false;
};

}  // namespace

Result<std::unique_ptr<PythonEngine>> PythonEngine::open(const PythonEngineOptions& options) {
  auto opened = std::make_unique<PythonEngine>();
  std::filesystem::path vocabulary = options.engine.model;
  if (!options.tokenizer.empty()) vocabulary = options.tokenizer;
  if (std::filesystem::is_directory(vocabulary)) vocabulary /= "tokenizer.json";
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::load(vocabulary));
  opened->tokenizer_ = std::move(tokenizer);
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, make_ops(options));
  opened->metrics_ = std::make_shared<EngineMetrics>();
  EngineOptions engine = options.engine;
  DI_ASSIGN_OR_RETURN(engine.placement.experts, expert_placement(options.expert_placement, "expert_placement"));
  DI_ASSIGN_OR_RETURN(engine.placement.engram, engram_placement(options.engram_placement, "engram_placement"));
  engine.observers.push_back(opened->metrics_);
  if (options.stats_interval > 0) {
    const double peak = measure_peak(ops->name(), threads_of(options));
    engine.observers.push_back(std::make_shared<StatsLine>(
        options.stats_interval, StatsLine::Limits{engine.step_rows, engine.max_sequences, peak}, print_line));
  }
  std::shared_ptr<RequestLog> log;
  if (!options.request_log.empty()) {
    DI_ASSIGN_OR_RETURN(log, RequestLog::create(options.request_log));
    engine.observers.push_back(log);
  }
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Engine> made, Engine::open(engine, std::move(ops)));
  opened->engine_ = std::move(made);
  if (log) {
    const std::string name = std::filesystem::weakly_canonical(engine.model).filename().string();
    DI_ASSIGN_OR_RETURN(const RequestLogHeader header,
                        request_log_header(*opened->engine_, engine, "python package", name));
    log->begin(header);
  }
  return opened;
}

PythonEngine::~PythonEngine() {
  close();
}

Status PythonEngine::submit(TextRequest request, std::vector<std::shared_ptr<PendingAnswer>> answers) {
  std::shared_lock lock(mutex_);
  if (engine_ == nullptr) return Status(StatusCode::kCancelled, "the engine is closed");
  if (answers.size() == 1 || request.request.prompt.size() < kSharedPrompt) {
    for (size_t i = 0; i < answers.size(); ++i) {
      request.request.choice = static_cast<uint32_t>(i);
      DI_RETURN_IF_ERROR(send(*engine_, *tokenizer_, request, answers[i]));
    }
    return {};
  }
  auto others = std::make_shared<LaterChoices>(*engine_, *tokenizer_, request, answers);
  const std::shared_ptr<PendingAnswer> first = answers.front();
  return number(*first,
                submit_text(*engine_, *tokenizer_, std::move(request), [first, others](const TextUpdate& update) {
                  first->update(update);
                  if (!update.tokens.empty() || update.end != nullptr) others->send_all();
                }));
}

void PythonEngine::cancel(PendingAnswer& answer) {
  answer.cancelled = true;
  const int64_t id = answer.id;
  std::shared_lock lock(mutex_);
  if (id >= 0 && engine_ != nullptr) engine_->cancel(static_cast<RequestId>(id));
}

Result<std::shared_ptr<Engine>> PythonEngine::open_engine() const {
  std::shared_lock lock(mutex_);
  if (engine_ == nullptr) return Status(StatusCode::kCancelled, "the engine is closed");
  return engine_;
}

Status PythonEngine::pause(PauseMode mode) {
  DI_ASSIGN_OR_RETURN(const std::shared_ptr<Engine> engine, open_engine());
  return engine->pause(mode);
}

Status PythonEngine::resume() {
  DI_ASSIGN_OR_RETURN(const std::shared_ptr<Engine> engine, open_engine());
  return engine->resume();
}

Status PythonEngine::sleep(PauseMode mode) {
  DI_ASSIGN_OR_RETURN(const std::shared_ptr<Engine> engine, open_engine());
  return engine->sleep(mode);
}

Status PythonEngine::wake_up() {
  DI_ASSIGN_OR_RETURN(const std::shared_ptr<Engine> engine, open_engine());
  return engine->wake_up();
}

Status PythonEngine::update_weights(const WeightUpdate& update) {
  DI_ASSIGN_OR_RETURN(const std::shared_ptr<Engine> engine, open_engine());
  return engine->update_weights(update);
}

Status PythonEngine::forget_prefixes(PrefixTiers tiers) {
  DI_ASSIGN_OR_RETURN(const std::shared_ptr<Engine> engine, open_engine());
  return engine->forget_prefixes(tiers);
}

void PythonEngine::close() {
  std::shared_ptr<Engine> closing;
  {
    std::unique_lock lock(mutex_);
    closing = std::move(engine_);
  }
  if (closing != nullptr) closing->begin_close();
  if (closing != nullptr && python_calls_of_output_thread > 0)
    std::thread([closing = std::move(closing), vocabulary = tokenizer_]() mutable { closing.reset(); }).detach();
}

}  // namespace deepinfer::python
