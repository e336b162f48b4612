// The tokens of a model folder's tokenizer as the model library wants them.
#pragma once

#include <filesystem>
#include <vector>

#include "base/status.h"
#include "models/open_model.h"

namespace deepinfer {

// All tokens of FOLDER/tokenizer.json by id.
Result<std::vector<TokenSpelling>> load_model_tokens(const std::filesystem::path& folder);

}  // namespace deepinfer
