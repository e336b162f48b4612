// A small checkpoint with random weights for any schedule of layers: what tests of the whole model use beside the
// demonstration model, whose schedule is only one of many.
#pragma once

#include <nlohmann/json.hpp>

#include "tensor/temporary_folder.h"

namespace deepinfer {

// A config.json with small dimensions (window 16, 16 selected rows, a pool of 8 blocks) and the schedule of edits,
// which are keys of text_config.
nlohmann::json synthetic_config(const nlohmann::json& edits);

// Writes config.json, model.safetensors and, with Engram, engram_token_map.json.
void write_synthetic_model(const TemporaryFolder& folder, const nlohmann::json& config, uint64_t seed);

}  // namespace deepinfer
