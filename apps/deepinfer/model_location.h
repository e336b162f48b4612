// Where a model lies: a folder, a repository id in the local Hugging Face cache, or the default model near the program.
// Nothing is ever downloaded.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"

namespace deepinfer::cli {

// The name of the demonstration model's folder.
inline constexpr const char* kDefaultModelName = "DeepSeek-V4.1-Tiny";

// The surroundings that the search reads; tests put their own in place.
struct ModelSearch {
  std::filesystem::path executable_folder;
  std::function<std::optional<std::string>(const char*)> environment;  // empty values count as not set

  static ModelSearch of_this_process();
};

// The folder of `name`: a path, or a repository id such as "deepseek-ai/DeepSeek-V4.1-Flash", looked for in
//   $DEEPINFER_HF_MODEL_DIR (a hub cache, or a folder of models: owner/name or name, or the model's own folder),
//   $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub  (models--owner--name/snapshots/<refs/main>).
// Not found: the message says where it was looked for and prints the download command.
Result<std::filesystem::path> locate_model(const std::string& name, const ModelSearch& search);

// $DEEPINFER_MODEL (anything that locate_model takes), else DeepSeek-V4.1-Tiny in the program's folder, in its models/
// folder or in ../share/deepinfer/.
Result<std::filesystem::path> locate_default_model(const ModelSearch& search);

// name when given, else the default.
Result<std::filesystem::path> locate_model(const std::optional<std::string>& name);

}  // namespace deepinfer::cli
