#include "loaded_model.h"

#include <chrono>
#include <optional>

#include "backends/cpu/cpu_ops.h"
#include "model_location.h"
#include "ops/ops.h"

namespace deepinfer::cli {
namespace {

Result<std::unique_ptr<Ops>> make_ops(const GenerationOptions& options) {
  if (options.backend == "reference") return make_reference_ops();
  CpuOpsOptions cpu;
  cpu.threads.threads = options.threads.value_or(0);
  return make_cpu_ops(cpu);
}

}  // namespace

Result<LoadedModel> load_model(const GenerationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  LoadedModel model;
  DI_ASSIGN_OR_RETURN(model.folder, locate_model(options.model));
  model.name = options.model && !std::filesystem::is_directory(*options.model)
                   ? *options.model
                   : std::filesystem::weakly_canonical(model.folder).filename().string();
  DI_ASSIGN_OR_RETURN(model.defaults, read_generation_defaults(model.folder));
  DI_ASSIGN_OR_RETURN(model.tokenizer, Tokenizer::load(model.folder / "tokenizer.json"));
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, make_ops(options));
  GeneratorOptions generator;
  generator.model = model.folder;
  generator.max_context = options.max_context.value_or(0);
  generator.prefill_chunk = options.prefill_chunk.value_or(0);
  generator.prefill = options.prefill;
  DI_ASSIGN_OR_RETURN(model.generator, Generator::open(generator, std::move(ops)));
  if (model.defaults.end_tokens.empty())
    if (const auto end = model.tokenizer->added_id("<｜end▁of▁sentence｜>")) model.defaults.end_tokens.push_back(*end);
  model.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

}  // namespace deepinfer::cli
