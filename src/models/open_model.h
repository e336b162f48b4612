// Opens the model of a folder, whatever its type.  Called by the engine.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/model.h"
#include "models/weight_placement.h"
#include "ops/ops.h"

namespace deepinfer {

struct TokenSpelling {
  std::string bytes;   // what the token stands for
  bool added = false;  // of the added vocabulary: its bytes are its spelling
};

struct ModelOptions {
  std::filesystem::path folder;  // config.json and safetensors
  StepLimits limits;
  WeightPlacement placement;
  bool allow_extra_tensors = false;  // tensors that the config does not ask for are an error otherwise
  // All tokens by id; called only where the folder lacks a file that would be built from them (this library knows no
  // tokenizer).
  std::function<Result<std::vector<TokenSpelling>>()> tokens;
};

// ops outlives the model; it is prepared for the limits here.  Errors: kUnsupported for an unknown model_type,
// kInvalidArgument for a placement that the backend does not have, kResourceExhausted where the weights find no room
// where they are placed, otherwise what is wrong with which file.
Result<std::unique_ptr<Model>> open_model(const ModelOptions& options, Ops& ops);

}  // namespace deepinfer
