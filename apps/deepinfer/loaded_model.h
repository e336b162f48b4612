// A model ready to answer: tokenizer, generator and defaults of one folder.  Made by `run`, `chat` and `bench`.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"
#include "engine/generator.h"
#include "generation_defaults.h"
#include "generation_options.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {

struct LoadedModel {
  std::filesystem::path folder;
  std::string name;  // the folder's name, or the repository id that was asked for
  GenerationDefaults defaults;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Generator> generator;
  bool kv_cache = false;  // the generator begins with what earlier processes left
  double load_seconds = 0;
};

// Finds and opens the model that the options name, on the backend that they name.
Result<LoadedModel> load_model(const GenerationOptions& options);

}  // namespace deepinfer::cli
