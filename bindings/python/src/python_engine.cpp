#include "python_engine.h"

#include <filesystem>
#include <utility>

#include "backends/cpu/cpu_ops.h"
#include "ops/ops.h"

namespace deepinfer::python {
namespace {

Result<std::unique_ptr<Ops>> make_ops(const PythonEngineOptions& options) {
  if (options.backend == "reference") return make_reference_ops();
  if (options.backend != "auto" && options.backend != "cpu")
    return invalid_argument("backend is '" + options.backend + "'; allowed: 'auto', 'cpu', 'reference'");
  CpuOpsOptions cpu;
  cpu.threads.threads = options.threads;
  return make_cpu_ops(cpu);
}

}  // namespace

Result<std::unique_ptr<PythonEngine>> PythonEngine::open(const PythonEngineOptions& options) {
  auto opened = std::make_unique<PythonEngine>();
  std::filesystem::path vocabulary = options.engine.model;
  if (!options.tokenizer.empty()) vocabulary = options.tokenizer;
  if (std::filesystem::is_directory(vocabulary)) vocabulary /= "tokenizer.json";
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::load(vocabulary));
  opened->tokenizer_ = std::move(tokenizer);
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, make_ops(options));
  DI_ASSIGN_OR_RETURN(opened->engine_, Engine::open(options.engine, std::move(ops)));
  return opened;
}

PythonEngine::~PythonEngine() {
  close();
}

Result<RequestId> PythonEngine::submit(TextRequest request, std::shared_ptr<PendingAnswer> answer) {
  std::shared_lock lock(mutex_);
  if (engine_ == nullptr) return invalid_argument("the engine is closed");
  return submit_text(*engine_, *tokenizer_, std::move(request),
                     [answer = std::move(answer)](const TextUpdate& update) { answer->update(update); });
}

void PythonEngine::cancel(RequestId id) {
  std::shared_lock lock(mutex_);
  if (engine_ != nullptr) engine_->cancel(id);
}

void PythonEngine::close() {
  std::unique_ptr<Engine> closing;
  {
    std::unique_lock lock(mutex_);
    closing = std::move(engine_);
  }
}

}  // namespace deepinfer::python
