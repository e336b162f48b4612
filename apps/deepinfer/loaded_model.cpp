#include "loaded_model.h"

#include <chrono>
#include <optional>
#include <system_error>

#include "engine/engine_generator.h"
#include "model_location.h"
#include "model_options.h"
#include "ops/ops.h"

namespace deepinfer::cli {
namespace {

// A generator that begins with what earlier processes left in a folder.
Result<std::unique_ptr<Generator>> open_cached(const GenerationOptions& options, const std::filesystem::path& folder,
                                               std::unique_ptr<Ops> ops) {
  if (options.prefill != PrefillMode::kExact)
    return invalid_argument("--kv-cache keeps what --prefill exact computes; leave --prefill out");
  EngineOptions engine;
  engine.model = folder;
  engine.placement = options.backend.placement();
  engine.max_context = options.max_context.value_or(0);
  engine.max_sequences = 1;
  engine.step_rows = options.prefill_chunk.value_or(default_prefill_chunk(folder));
  engine.kv_disk_folder = *options.kv_cache;
  if (options.kv_cache_size) engine.kv_disk_bytes = static_cast<int64_t>(1e9 * *options.kv_cache_size);
  std::error_code error;
  std::filesystem::create_directories(engine.kv_disk_folder, error);
  if (error) return invalid_argument("--kv-cache: " + *options.kv_cache + ": " + error.message());
  engine.step_cost_file = engine.kv_disk_folder / "step_cost.json";
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Engine> opened, Engine::open(engine, std::move(ops)));
  return make_engine_generator(std::move(opened));
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
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, make_backend(options.backend, options.threads));
  model.kv_cache = options.kv_cache.has_value();
  if (model.kv_cache) {
    DI_ASSIGN_OR_RETURN(model.generator, open_cached(options, model.folder, std::move(ops)));
  } else {
    GeneratorOptions generator;
    generator.model = model.folder;
    generator.placement = options.backend.placement();
    generator.max_context = options.max_context.value_or(0);
    generator.prefill_chunk = options.prefill_chunk.value_or(0);
    generator.prefill = options.prefill;
    DI_ASSIGN_OR_RETURN(model.generator, Generator::open(generator, std::move(ops)));
  }
  if (model.defaults.end_tokens.empty())
    if (const auto end = model.tokenizer->added_id("<｜end▁of▁sentence｜>")) model.defaults.end_tokens.push_back(*end);
  model.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

}  // namespace deepinfer::cli
